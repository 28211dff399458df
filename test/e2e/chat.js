// Clients of the showcase's chat: what they are told, in which order, and what they are refused.
// Usage: node chat.js URL. Prints "ok ..." or "not ok ..." for each check.
const WebSocket = require('ws');
const http = require('http');
const base = process.argv[2], sockets = base.replace('http', 'ws');
const LIMIT_MS = 60000;

class Client {
  constructor(room, name, query = '', options = {}) {
    this.messages = [];
    this.waiting = null;
    this.socket = new WebSocket(`${sockets}/chat/ws/${room}?name=${encodeURIComponent(name)}${query}`, options);
    this.ended = new Promise(resolve => this.socket.on('close', resolve));
    this.status = new Promise(resolve => {
      this.socket.on('open', () => resolve(101));
      this.socket.on('unexpected-response', (request, response) => { resolve(response.statusCode); response.resume(); });
    });
    this.socket.on('error', () => {});
    this.socket.on('message', data => {
      this.messages.push(JSON.parse(data));
      if (this.waiting) this.waiting();
    });
  }
  // The first message, of those that have come and will come, for which that holds; behind `from`.
  async until(what, from = 0) {
    const end = Date.now() + LIMIT_MS;
    for (;;) {
      const found = this.messages.slice(from).find(what);
      if (found) return found;
      if (Date.now() > end) throw new Error(`not within ${LIMIT_MS} ms: ${what}; came: ${JSON.stringify(this.messages.slice(-5))}`);
      await new Promise(resolve => { this.waiting = resolve; setTimeout(resolve, 1000); });
      this.waiting = null;
    }
  }
  hello() { return this.until(m => m.type === 'hello'); }
  said() { return this.messages.filter(m => m.type === 'said'); }
  send(text) { this.socket.send(text); }
  async close() { this.socket.close(); await this.ended; }
}

const equal = (got, want) => {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`${JSON.stringify(got)} is not ${JSON.stringify(want)}`);
};
const status = (path, headers = {}) => new Promise((resolve, reject) => {
  http.get(base + path, { headers }, response => { response.resume(); resolve(response.statusCode); }).on('error', reject);
});

const checks = {
  async 'what one says comes to all, in one order'() {
    const a = new Client('order', 'Ada'), b = new Client('order', 'Bob');
    await a.hello(); await b.hello();
    for (let i = 0; i < 5; i++) { a.send(`say a${i} from a ${i}`); b.send(`say b${i} from b ${i}`); }
    await a.until(m => m.sequence === 10); await b.until(m => m.sequence === 10);
    equal(a.said(), b.said());
    equal(a.said().filter(m => m.name === 'Ada').map(m => m.text), [0, 1, 2, 3, 4].map(i => `from a ${i}`));
    equal(a.said()[0].tag[1], '0');
    await a.close(); await b.close();
  },
  async 'who comes and goes is told'() {
    const a = new Client('presence', 'Ada');
    await a.hello();
    const b = new Client('presence', 'Bob');
    const { id } = await a.until(m => m.type === 'joined' && m.name === 'Bob');
    await b.until(m => (m.type === 'hello' && m.members.some(one => one.name === 'Ada')) || (m.type === 'joined' && m.name === 'Ada'));
    await b.close();
    await a.until(m => m.type === 'left' && m.id === id);
    await a.close();
  },
  async 'what was missed comes when one comes back, and once'() {
    const a = new Client('resume', 'Ada'), b = new Client('resume', 'Bob');
    const { epoch } = await a.hello();
    await b.hello();
    a.send('say 1 one');
    await a.until(m => m.sequence === 1);
    await a.close();
    b.send('say 2 two'); b.send('say 3 three');
    await b.until(m => m.sequence === 3);
    const again = new Client('resume', 'Ada', `&since=1&epoch=${epoch}`);
    await again.until(m => m.sequence === 3 && m.type === 'said');
    b.send('say 4 four');
    await again.until(m => m.sequence === 4);
    equal(again.said().map(m => m.text), ['two', 'three', 'four']);
    const other = new Client('resume', 'Eve', '&since=3&epoch=1'); // of another run: all of it
    await other.until(m => m.sequence === 4 && m.type === 'said');
    equal(other.said().length, 4);
    again.send('since 2');
    await again.until(m => m.text === 'three', again.messages.length);
    for (const client of [again, other, b]) await client.close();
  },
  async 'texts are texts, of any script'() {
    const a = new Client('texts', '<b>"Ada"\\</b>');
    await a.hello();
    const texts = ['<script>alert(1)</script>', '"quoted" \\ and \u0001\u001f', 'äöü \u{1f9f5} \u2028', 'a\nb'];
    for (const [i, text] of texts.entries()) a.send(`say t${i} ${text}`);
    await a.until(m => m.sequence === texts.length && m.type === 'said');
    equal(a.said().map(m => m.text), texts);
    equal(a.said()[0].name, '<b>"Ada"\\</b>');
    await a.close();
  },
  async 'names that are none are refused'() {
    for (const name of ['', '   ', 'x'.repeat(49), 'a\nb', 'a\u007f']) equal(await new Client('lobby', name).status, 400);
    for (const room of ['Lobby', 'a_b', 'x'.repeat(25), 'a%2Fb', '*', '%23']) equal(await new Client(room, 'Ada').status, 400);
    equal(await new Client('%2e%2e', 'Ada').status, 404); // no segment, but the way up
    equal(await status('/chat/ws/lobby?name=%ff%fe', { Upgrade: 'websocket', Connection: 'Upgrade' }), 400);
    equal(await status('/chat/ws/lobby'), 400);
    equal(await status('/chat/ws/lobby?name=Ada'), 426);
  },
  async 'pages of other sites are refused'() {
    equal(await new Client('lobby', 'Ada', '', { origin: 'http://evil.example' }).status, 403);
    equal(await new Client('lobby', 'Ada', '', { origin: 'null' }).status, 403);
    const own = new Client('lobby', 'Ada', '', { origin: base });
    equal(await own.status, 101);
    await own.close();
  },
  async 'what is too long ends the connection'() {
    const a = new Client('long', 'Ada');
    await a.hello();
    a.send(`say t ${'x'.repeat(2000)}`);
    await a.until(m => m.type === 'said');
    a.send(`say t ${'x'.repeat(100000)}`);
    equal(await a.ended, 1009);
  },
  async 'commands that are none change nothing'() {
    const a = new Client('none', 'Ada');
    await a.hello();
    for (const command of ['', 'say', 'say ', 'say x', 'say x  ', ' ', 'slow', 'slow nonsense']) a.send(command);
    a.socket.send(Buffer.from('say t binary'));
    a.send('\0');
    a.send('say end end');
    await a.until(m => m.type === 'said');
    equal(a.said().map(m => m.text), ['end']);
    await a.close();
  },
  async 'a flood is refused, then ended'() {
    const a = new Client('flood', 'Eve'), b = new Client('flood', 'Bob');
    await a.hello(); await b.hello();
    for (let i = 0; i < 3000; i++) a.send(`say f${i} flood`);
    await a.until(m => m.type === 'notice');
    equal(await a.ended, 1008);
    b.send('say end end');
    await b.until(m => m.text === 'end');
    if (b.said().length > 1000) throw new Error(`${b.said().length} of the flood were let through`);
    await b.close();
  },
  async 'a slow reader loses what its policy says, and nobody else anything'() {
    for (const [policy, lost] of [['drop-oldest', 43], ['drop-newest', 43], ['keep-latest', 40]]) {
      const a = new Client(`slow-${policy}`, 'Ada');
      await a.hello();
      a.send(`slow ${policy}`);
      await a.until(m => m.type === 'slow' && m.on && m.policy === policy);
      a.send('burst');
      await a.until(m => m.type === 'slow' && m.lost >= lost);
      await a.until(m => m.sequence === 60);
      equal(a.said().map(m => m.sequence), Array.from({ length: 60 }, (_, i) => i + 1));
      const from = a.messages.length;
      await new Promise(resolve => setTimeout(resolve, 3000)); // the limit of commands
      a.send('slow off');
      await a.until(m => m.type === 'slow' && !m.on, from);
      await a.until(m => m.type === 'left' && m.name === 'Slow reader');
      await a.close();
    }
  },
  async 'a slow reader may be disconnected'() {
    const a = new Client('slow-end', 'Ada');
    await a.hello();
    a.send('slow disconnect');
    await a.until(m => m.type === 'slow' && m.on);
    a.send('burst');
    await a.until(m => m.type === 'slow' && m.closed);
    await a.until(m => m.type === 'left' && m.name === 'Slow reader');
    await a.close();
  },
  async 'a room keeps so much, and no more'() {
    const a = new Client('history', 'Ada');
    await a.hello();
    for (let i = 1; i <= 4; i++) {
      a.send('burst');
      await a.until(m => m.sequence === 60 * i);
      await new Promise(resolve => setTimeout(resolve, 500));
    }
    const b = new Client('history', 'Bob');
    await b.until(m => m.type === 'said' && m.sequence === 240);
    equal(b.said().length, 200);
    equal(b.said()[0].sequence, 41);
    await a.close(); await b.close();
  },
  async 'there are so many rooms; those that are left make way'() {
    const clients = [];
    for (let i = 0; i < 64; i++) clients.push(new Client(`many-${i}`, 'Ada'));
    await Promise.all(clients.map(client => client.hello()));
    equal(await new Client('many-64', 'Ada').status, 503);
    await clients[7].close();
    for (let code = 503; code !== 101;) { // it is empty when the tree has told that
      const late = new Client('many-64', 'Ada');
      code = await late.status;
      if (code === 101) { await late.hello(); await late.close(); }
    }
    await Promise.all(clients.filter((_, i) => i !== 7).map(client => client.close()));
  },
  async 'a hundred come, speak and go at once'() {
    for (let round = 0; round < 3; round++) {
      const clients = Array.from({ length: 100 }, (_, i) => new Client('crowd', `c${i}`));
      await Promise.all(clients.map(client => client.hello()));
      clients.forEach((client, i) => client.send(`say t crowd ${round} ${i}`));
      for (const client of clients) await client.until(m => m.sequence === 100 * (round + 1) && m.type === 'said');
      for (const client of clients) client.socket[round === 1 ? 'terminate' : 'close']();
      await Promise.all(clients.map(client => client.ended));
    }
  },
  async '/ws/echo compresses, and sends back what it gets'() {
    const socket = new WebSocket(`${sockets}/ws/echo`, { perMessageDeflate: true });
    await new Promise(resolve => socket.on('open', resolve));
    const next = () => new Promise(resolve => socket.once('message', (data, binary) => resolve(data)));
    for (const size of [0, 1, 125, 126, 65535, 65536, 1 << 20, 8 << 20]) {
      const data = Buffer.alloc(size, 'coir ');
      socket.send(data);
      if (!data.equals(await next())) throw new Error(`${size} bytes`);
    }
    socket.close();
  },
};

(async () => {
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check();
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`not ok ${name}: ${error.message}`);
    }
  }
  process.exit();
})();
