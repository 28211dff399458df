// A page over HTTP/1.1 by Node's own server. Usage: node http_node.js PORT
const http = require('http');
const server = http.createServer((request, response) => {
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': 13 });
  response.end('Hello, World!');
});
server.maxRequestsPerSocket = 0;
server.listen(Number(process.argv[2]), '127.0.0.1');
