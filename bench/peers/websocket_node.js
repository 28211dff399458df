// WebSocket by Node's ws: /echo, and a room at every other path. Usage: node websocket_node.js PORT
const http = require('http');
const { WebSocketServer } = require('ws');
const server = http.createServer((request, response) => response.end('Hello, World!'));
const sockets = new WebSocketServer({ server, perMessageDeflate: false, maxPayload: 8 << 20 });
sockets.on('connection', (socket, request) => {
  socket.on('message', (message, binary) => {
    if (request.url === '/echo') socket.send(message, { binary });
    else for (const one of sockets.clients) one.send(message, { binary });
  });
});
server.listen(Number(process.argv[2]), '127.0.0.1');
