// WebSocket by Bun's own server: /echo, and a room at every other path. Usage: bun websocket_bun.js PORT
const server = Bun.serve({
  port: Number(process.argv[2]),
  hostname: '127.0.0.1',
  fetch(request, own) {
    const echoes = new URL(request.url).pathname === '/echo';
    return own.upgrade(request, { data: { echoes } }) ? undefined : new Response('Hello, World!');
  },
  websocket: {
    perMessageDeflate: false,
    maxPayloadLength: 8 << 20,
    idleTimeout: 0,
    sendPings: false,
    open(ws) { if (!ws.data.echoes) ws.subscribe('room'); },
    message(ws, message) { if (ws.data.echoes) ws.send(message); else server.publish('room', message); },
  },
});
