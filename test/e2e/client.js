// Raw sockets against the showcase: what a load generator never sends. Prints a line for each case: "ok ..." or what went wrong.
'use strict';
const net = require('net');
const http = require('http');
const port = Number(process.argv[2]);
const GET = (path) => `GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`;

// Sends pieces, collects until the end or until `enough` says so.
function talk(pieces, { end = false, enough = null, pause = 0 } = {}) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1');
    let got = '';
    socket.setNoDelay(true);
    socket.setEncoding('latin1');
    socket.setTimeout(20000, () => { socket.destroy(); reject(new Error(`no answer; so far: ${got.slice(-200)}`)); });
    socket.on('data', (data) => { got += data; if (enough && enough(got)) { socket.destroy(); resolve(got); } });
    socket.on('end', () => { socket.end(); resolve(got); });
    socket.on('error', reject);
    socket.on('connect', async () => {
      for (const piece of pieces) {
        socket.write(piece, 'latin1');
        if (pause) await new Promise((next) => setTimeout(next, pause));
      }
      if (end) socket.end();
    });
  });
}

const count = (text, what) => text.split(what).length - 1;
const check = (condition, text) => { if (!condition) throw new Error(text); };

const cases = {
  async 'node http client'() {
    const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
    const one = (method, path, body) => new Promise((resolve, reject) => {
      const request = http.request({ host: '127.0.0.1', port, agent, method, path }, (answer) => {
        let text = '';
        answer.on('data', (data) => { text += data; });
        answer.on('end', () => resolve(text));
      });
      request.on('error', reject);
      request.end(body);
    });
    for (let i = 0; i < 50; i++) {
      const [hello, echo] = await Promise.all([one('GET', '/hello'), one('POST', '/echo', `body ${i}`)]);
      check(hello === 'Hello, World!' && echo === `body ${i}`, `${hello} ${echo}`);
    }
    agent.destroy();
  },
  async 'pipelined 2, 16, 64, 256'() {
    for (const n of [2, 16, 64, 256]) {
      const got = await talk([GET('/hello').repeat(n)], { enough: (text) => count(text, 'Hello, World!') === n });
      check(count(got, 'HTTP/1.1 200') === n, `${n}: ${count(got, 'HTTP/1.1 200')}`);
    }
  },
  async 'split at every byte'() {
    const text = 'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello';
    const all = [];
    for (let cut = 1; cut < text.length; cut++)
      all.push(talk([text.slice(0, cut), text.slice(cut)], { pause: 10, enough: (got) => got.endsWith('hello') }));
    await Promise.all(all);
    await talk([...text], { pause: 1, enough: (got) => got.endsWith('hello') });
  },
  async 'half close is answered'() {
    const got = await talk([GET('/sleep/100')], { end: true });
    check(got.includes('slept'), got);
  },
  async 'bad requests'() {
    const bad = {
      'GET / HTTP/1.1\nHost: a\n\n': 400, 'GET / HTTP/1.1\r\nHost: a\r\nA: b\rc\r\n\r\n': 400, 'GET / HTTP/1.1\r\n\r\n': 400,
      'GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n': 400, 'GET / HTTP/1.1\r\nHost: a\r\nA\0: b\r\n\r\n': 400,
      'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab': 400,
      'POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n': 400,
      'POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n': 400,
      'GET / HTTP/2.0\r\nHost: a\r\n\r\n': 505, [`GET /${'a'.repeat(9000)} HTTP/1.1\r\nHost: a\r\n\r\n`]: 414,
      [`GET / HTTP/1.1\r\nHost: a\r\nA: ${'b'.repeat(9000)}\r\n\r\n`]: 431, 'GET  / HTTP/1.1\r\nHost: a\r\n\r\n': 400,
    };
    for (const [text, status] of Object.entries(bad)) {
      const got = await talk([text + GET('/hello')]);
      check(got.startsWith(`HTTP/1.1 ${status} `) && count(got, 'HTTP/1.1 ') === 1, `${JSON.stringify(text.slice(0, 60))}: ${got.slice(0, 60)}`);
    }
  },
  async 'a slow head gets 408'() {
    check((await talk(['GET / HT'])).startsWith('HTTP/1.1 408 '), 'no 408');
  },
  async 'a reader that pauses gets 32 MiB whole'() {
    await new Promise((resolve, reject) => {
      const socket = net.connect(port, '127.0.0.1', () => socket.write(GET('/stream/33554432') ));
      let got = 0, pauses = 0;
      socket.setTimeout(30000, () => reject(new Error(`stopped after ${got}`)));
      socket.on('data', (data) => {
        got += data.length;
        if (pauses < 3 && got > pauses * 8e6) { pauses++; socket.pause(); setTimeout(() => socket.resume(), 700); }
        if (got > 33554432) { socket.destroy(); if (got < 33555000) resolve(); else reject(new Error(`${got}`)); }
      });
      socket.on('error', reject);
    });
  },
  async 'clients that vanish at any moment'() {
    const text = GET('/hello') + GET('/sleep/30') + GET('/stream/1000000');
    const all = [];
    for (let i = 0; i < 300; i++)
      all.push(new Promise((resolve) => {
        const socket = net.connect(port, '127.0.0.1', () => {
          socket.write(text.slice(0, i % text.length));
          setTimeout(() => { if (i % 3 === 0) socket.resetAndDestroy ? socket.resetAndDestroy() : socket.destroy();
            else if (i % 3 === 1) socket.destroy(); else { socket.end(); setTimeout(() => socket.destroy(), 20); } resolve(); }, i % 50);
        });
        socket.on('error', resolve);
      }));
    await Promise.all(all);
  },
  async 'a thousand sleepers at once'() {
    const all = [];
    for (let i = 0; i < 1000; i++) all.push(talk([GET('/sleep/300')], { enough: (got) => got.includes('slept') }));
    await Promise.all(all);
  },
  async '5,000 idle connections are closed by their timeout'() {
    const all = [];
    for (let i = 0; i < 5000; i++) all.push(talk(i % 2 ? [GET('/hello')] : []));
    await Promise.all(all);
  },
};

(async () => {
  for (const [name, run] of Object.entries(cases)) {
    try { await run(); console.log(`ok ${name}`); } catch (error) { console.log(`${name}: ${error.message}`); }
  }
  process.exit(0);
})();
