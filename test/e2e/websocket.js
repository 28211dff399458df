// A peer by Node's ws. Usage: node websocket.js client URL | node websocket.js serve
const { WebSocket, WebSocketServer } = require('ws');
const fail = (why) => { console.error(why); process.exit(1); };
if (process.argv[2] === 'serve') {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1', perMessageDeflate: true, maxPayload: 8 << 20 });
  server.on('listening', () => console.log(`127.0.0.1:${server.address().port}`));
  server.on('connection', (ws) => ws.on('message', (data, binary) => ws.send(data, { binary, compress: true })));
} else {
  let left = 0;
  for (const compress of [false, true]) {
    left++;
    const ws = new WebSocket(process.argv[3], { perMessageDeflate: compress });
    const sizes = [0, 1, 125, 126, 65535, 65536, 1000000];
    let next = 0, pongs = 0;
    const data = (i) => Buffer.alloc(sizes[i], `message ${i} `);
    ws.on('error', fail);
    ws.on('pong', () => pongs++);
    ws.on('open', () => { sizes.forEach((size, i) => { ws.ping('p'); ws.send(data(i), { binary: i % 2 === 1 }); });
      ws.send('frag', { fin: false }); ws.send('ment', { fin: true }); });
    ws.on('message', (got, binary) => {
      if (next === sizes.length) {
        if (got.toString() !== 'fragment') fail('fragments');
        return ws.close(4000, 'bye');
      }
      if (!got.equals(data(next)) || binary !== (next % 2 === 1)) fail(`message ${next}`);
      next++;
    });
    ws.on('close', (code) => {
      if (code !== 4000 || next !== sizes.length || pongs !== sizes.length) fail(`closed with ${code} after ${next}, ${pongs}`);
      if (--left === 0) console.log('ok');
    });
  }
}
