// A page over HTTP/1.1 by Bun's own server. Usage: bun http_bun.js PORT
Bun.serve({
  port: Number(process.argv[2]),
  hostname: '127.0.0.1',
  fetch() { return new Response('Hello, World!', { headers: { 'Content-Type': 'text/plain' } }); },
});
