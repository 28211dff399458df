// Node's agents against the showcase. Usage: clients.js PORT; prints "ok" or what went wrong.
'use strict';
const http = require('http');
const port = Number(process.argv[2]);

function ask(agent, method, path, want, body) {
  return new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, agent, method, path }, (answer) => {
      const parts = [];
      answer.on('data', (part) => parts.push(part));
      answer.on('error', reject);
      answer.on('end', () => {
        const got = Buffer.concat(parts);
        const lengths = `${got.length} of ${want.length} bytes`;
        if (answer.statusCode === 200 && got.equals(want)) resolve(request.reusedSocket);
        else reject(new Error(`${method} ${path}: ${answer.statusCode}, ${lengths}`));
      });
    });
    request.setTimeout(20000, () => request.destroy(new Error(`${method} ${path}: no answer`)));
    request.on('error', reject);
    if (body) { // in two pieces: without a length, so in chunks
      request.write(body.subarray(0, 99));
      request.write(body.subarray(99));
    }
    request.end();
  });
}

const hello = Buffer.from('Hello, World!');

async function client(agent, kept) {
  let reused = 0, asked = 0;
  for (const size of [100, 8000, 8192, 16384, 40000, 65536]) {
    const body = Buffer.alloc(size, 'abcdefghijklmno');
    for (let i = 0; i < 5; i++) {
      asked += 2;
      if (await ask(agent, 'POST', '/echo', body, body)) reused++;
      if (await ask(agent, 'GET', '/hello', hello)) reused++;
    }
  }
  if (kept && reused !== asked - 1)
    throw new Error(`${reused} of ${asked} requests used a connection again`);
}

(async () => {
  const all = [];
  all.push(client(new http.Agent({ keepAlive: true, maxSockets: 1 }), true));
  for (const options of [{ keepAlive: true, maxSockets: 4 }, { keepAlive: false }]) {
    const agent = new http.Agent(options);
    for (let i = 0; i < 8; i++) all.push(client(agent, false));
  }
  const failed = (await Promise.allSettled(all)).filter((one) => one.status === 'rejected');
  console.log(failed.map((one) => one.reason.message).join('\n') || 'ok');
  process.exit(failed.length ? 1 : 0);
})();
