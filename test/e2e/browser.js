// The chat in Chromium: people, a slow reader, lost connections, a phone, the keyboard, dark and
// light, and axe. Usage: node browser.js URL OTHER. OTHER is a second server, which stands for the
// first one restarted. Prints "ok ..." or "not ok ..." for each check.
const { chromium } = require('playwright-core');
const axe = require('axe-core').source;
const net = require('net');
const [url, other] = process.argv.slice(2);
const { SECURE: secure, SHOTS: shots } = process.env;
const LIMIT_MS = 120000;
const desktop = { viewport: { width: 1280, height: 800 } };
const phone = { viewport: { width: 390, height: 760 }, isMobile: true, hasTouch: true };

// A server in between, which cuts connections and refuses new ones when it is told to.
class Line {
  constructor() {
    this.up = true;
    this.port = Number(new URL(url).port);
    this.sockets = new Set();
    this.server = net.createServer(socket => {
      if (!this.up) { socket.destroy(); return; }
      const onward = net.connect(this.port, '127.0.0.1');
      for (const [one, two] of [[socket, onward], [onward, socket]]) {
        this.sockets.add(one);
        one.on('error', () => {}).on('close', () => { this.sockets.delete(one); two.destroy(); });
        one.pipe(two);
      }
    });
  }
  async open() {
    await new Promise(resolve => this.server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${this.server.address().port}`;
  }
  cut() {
    this.up = false;
    for (const socket of this.sockets) socket.destroy();
  }
}

let browser;
const said = []; // what a page prints to its console, and what it asks of others
const pages = [];
async function open(options, path, base = url) {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  page.on('console', message => { if (message.type() === 'error' && !message.text().includes('WebSocket connection')) said.push(message.text()); });
  page.on('pageerror', error => said.push(error.message));
  page.on('request', request => { if (!request.url().startsWith(base)) said.push(`asked for ${request.url()}`); });
  await page.goto(base + path);
  pages.push(page);
  return page;
}
async function join(name, room, options = desktop, base = url) {
  const page = await open(options, `/chat#${room}`, base);
  await page.fill('#name', name);
  await page.click('#who-form button');
  await page.waitForSelector('#status[data-state=open]');
  await page.waitForSelector('#log[aria-busy=false]');
  return page;
}
async function say(page, text) {
  await page.fill('#text', text);
  await page.press('#text', 'Enter');
}
const texts = page => page.$$eval('.message:not(.pending) p', all => all.map(one => one.textContent));
const hears = (page, text) => page.waitForFunction(
  wanted => [...document.querySelectorAll('.message:not(.pending) p')].some(one => one.textContent === wanted), text);
const notes = (page, text) => page.waitForFunction(
  wanted => [...document.querySelectorAll('.note')].some(one => one.textContent === wanted), text);
const reads = (page, id, text) => page.waitForFunction(([at, wanted]) => document.getElementById(at).textContent.includes(wanted), [id, text]);
const is = (what, holds) => { if (!holds) throw new Error(what); };
const same = (got, want) => is(`${JSON.stringify(got)} is not ${JSON.stringify(want)}`, JSON.stringify(got) === JSON.stringify(want));
const settle = page => page.waitForFunction(() => document.getAnimations().every(one => one.playState === 'finished'));
const shot = async (page, name) => {
  if (!shots) return;
  await settle(page);
  await page.screenshot({ path: `${shots}/${name}.png` });
};

async function accessible(page, what) {
  await settle(page);
  const violations = await page.evaluate(`(() => { const module = undefined, exports = undefined; ${axe};
    return axe.run(document, { resultTypes: ['violations'] }); })()`).then(result => result.violations);
  is(`${what}: ${violations.map(one => `${one.id}: ${one.nodes.map(node => node.html).join(' ')}`).join('; ')}`, violations.length === 0);
}

const checks = {
  async 'two browsers talk, and a third gets what was said'() {
    const ada = await join('Ada', 'two'), bob = await join('Bob', 'two');
    await say(ada, 'hello, Bob');
    await hears(bob, 'hello, Bob');
    await say(bob, 'hello, Ada');
    await hears(ada, 'hello, Ada');
    await hears(bob, 'hello, Ada');
    const eve = await join('Eve', 'two');
    for (const page of [ada, bob, eve]) same(await texts(page), ['hello, Bob', 'hello, Ada']);
    same(await ada.$$eval('.message.mine', all => all.length), 1);
    await reads(ada, 'people', 'Eve');
    await eve.context().close();
    await notes(ada, 'Eve has left');
    is('Eve is still listed', !(await ada.textContent('#people')).includes('Eve'));
  },
  async 'one sees who types'() {
    const ada = await join('Ada', 'typing'), bob = await join('Bob', 'typing');
    await bob.type('#text', 'I am');
    await reads(ada, 'typing', 'Bob is typing');
    await say(bob, 'done');
    await hears(ada, 'done');
    await ada.waitForFunction(() => document.getElementById('typing').textContent === '');
  },
  async 'what others write is never markup'() {
    const ada = await join('<b onclick=x>Ada</b>', 'markup'), bob = await join('Bob', 'markup');
    const text = '<img src=x onerror="document.title=1"><script>document.title=2</script> & "quotes"';
    await say(ada, text);
    await hears(bob, text);
    same(await bob.$$eval('#log img, #log script, #people b', all => all.length), 0);
    await reads(bob, 'people', '<b onclick=x>');
    await say(ada, `long ${'x'.repeat(900)}`);
    await hears(bob, `long ${'x'.repeat(900)}`);
    is('a long word makes the page wide', await bob.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
  },
  async 'a slow reader is treated by its policy, and the others get everything'() {
    const ada = await join('Ada', 'slow'), bob = await join('Bob', 'slow');
    await say(ada, 'What does a queue of 16 do with 60 messages?');
    await say(bob, 'It depends on its policy. Watch the one on the right!');
    await hears(ada, 'It depends on its policy. Watch the one on the right!');
    await ada.click('#slow-switch');
    await bob.waitForSelector('#slow-switch[aria-pressed=true]');
    await reads(ada, 'people', 'Slow reader');
    await bob.click('#burst');
    await ada.waitForFunction(() => Number(document.getElementById('slow-lost').textContent) >= 40);
    await hears(ada, 'burst 60 of 60');
    same((await texts(ada)).filter(one => one.startsWith('burst')).length, 60);
    await say(ada, 'It lost the oldest 43, and nobody waited for it.');
    await hears(bob, 'It lost the oldest 43, and nobody waited for it.');
    await shot(ada, 'chat-light');
    await ada.waitForFunction(() => Number(document.getElementById('slow-read').textContent) >= 3);
    await ada.click('#slow-switch');
    await reads(bob, 'slow-said', 'It is off.');
    await notes(ada, 'Slow reader has left');
    await ada.waitForFunction(() => !document.getElementById('policy').disabled);
    await ada.selectOption('#policy', 'disconnect');
    await ada.click('#slow-switch');
    await ada.waitForSelector('#slow-switch[aria-pressed=true]');
    await bob.click('#burst');
    await reads(ada, 'slow-said', 'it is disconnected');
    await reads(ada, 'slow-said', 'It is off.');
  },
  async 'who was cut off gets what was missed, and what was written meanwhile arrives, once'() {
    const line = new Line(), through = await line.open();
    const ada = await join('Ada', 'cut', desktop, through), bob = await join('Bob', 'cut');
    await say(ada, 'before');
    await hears(bob, 'before');
    line.cut();
    await reads(ada, 'lost-text', 'Connection lost');
    await notes(bob, 'Ada has left');
    for (const text of ['missed 1', 'missed 2', 'missed 3']) { await say(bob, text); await hears(bob, text); }
    await say(ada, 'written while away 1');
    await say(ada, 'written while away 2');
    same(await ada.$$eval('.pending', all => all.length), 2);
    line.up = true;
    await hears(bob, 'written while away 2');
    await hears(ada, 'written while away 2');
    const all = ['before', 'missed 1', 'missed 2', 'missed 3', 'written while away 1', 'written while away 2'];
    for (const page of [ada, bob]) same(await texts(page), all);
    same(await ada.$$eval('.pending', rest => rest.length), 0);
    is('the notice stays', await ada.isHidden('#lost'));

    line.cut();
    await reads(ada, 'lost-text', 'Connection lost');
    line.port = Number(new URL(other).port);
    line.up = true;
    await ada.click('#retry');
    await notes(ada, 'The server was restarted.');
    await say(ada, 'to the new one');
    await hears(ada, 'to the new one');
    line.server.close();
  },
  async 'rooms are apart'() {
    const ada = await join('Ada', 'one-room'), bob = await join('Bob', 'other-room');
    await say(ada, 'in one room');
    await hears(ada, 'in one room');
    await bob.fill('#other-name', 'One Room');
    await bob.press('#other-name', 'Enter');
    await hears(bob, 'in one room');
    same(await bob.textContent('#room-title'), '#one-room');
    same(await bob.getAttribute('#rooms a[aria-current]', 'href'), '#one-room');
    await bob.click('#rooms a[href="#lobby"]');
    await bob.waitForFunction(() => document.getElementById('room-title').textContent === '#lobby');
    await notes(ada, 'Bob has left');
  },
  async 'it fits a phone'() {
    const ada = await join('Ada', 'phone', phone), bob = await join('Bob', 'phone');
    await say(bob, 'Does it fit a phone?');
    await hears(ada, 'Does it fit a phone?');
    await say(ada, 'It does, also with a long sentence that does not fit one line of it.');
    await hears(bob, 'It does, also with a long sentence that does not fit one line of it.');
    is('it scrolls sideways', await ada.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    const box = await ada.locator('#composer button').boundingBox();
    is('the button to send is out of sight', box.x >= 0 && box.x + box.width <= 390 && box.y + box.height <= 760);
    await shot(ada, 'chat-phone');
    await ada.tap('#open-side');
    await ada.waitForSelector('#people', { state: 'visible' });
    same(await ada.getAttribute('#open-side', 'aria-expanded'), 'true');
    await ada.tap('#rooms a[href="#help"]');
    await ada.waitForSelector('#people', { state: 'hidden' });
    await ada.tap('#open-slow');
    await ada.waitForSelector('#slow-switch', { state: 'visible' });
    await accessible(ada, 'a phone');
    const small = await ada.$$eval('button, input, select, textarea', all => all.filter(one => one.offsetParent && one.getBoundingClientRect().height < 40).map(one => one.id));
    same(small, []);
  },
  async 'the keyboard is enough'() {
    const page = await open(desktop, '/chat#keys');
    await page.keyboard.type('Ada');
    await page.keyboard.press('Enter');
    await page.waitForSelector('#status[data-state=open]');
    await page.keyboard.type('no mouse');
    await page.keyboard.press('Shift+Enter');
    await page.keyboard.type('at all');
    await page.keyboard.press('Enter');
    await hears(page, 'no mouse\nat all');
    const focused = () => page.evaluate(() => {
      const one = document.activeElement, style = getComputedStyle(one);
      return { id: one.id || one.getAttribute('href') || one.textContent, outline: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2 };
    });
    const seen = new Set();
    for (let i = 0; i < 60 && !seen.has('slow-switch'); i++) {
      await page.keyboard.press('Tab');
      const { id, outline } = await focused();
      is(`the focus on ${id} cannot be seen`, outline || id === '');
      seen.add(id);
    }
    is(`Tab does not lead to the slow reader: ${[...seen]}`, seen.has('slow-switch'));
    await page.keyboard.press('Space');
    await page.waitForSelector('#slow-switch[aria-pressed=true]');
    await page.keyboard.press('Space');
    await page.waitForSelector('#slow-switch[aria-pressed=false]');
    await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
    for (let i = 0; i < 60 && (await focused()).id !== '#help'; i++) await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.waitForFunction(() => document.getElementById('room-title').textContent === '#help');
  },
  async 'axe finds nothing: light, dark, each page, the dialog, a lost connection'() {
    for (const colorScheme of ['light', 'dark']) {
      const options = { ...desktop, colorScheme };
      const home = await open(options, '/');
      await home.waitForFunction(() => document.querySelector('[data-of=count]').textContent !== '–');
      await accessible(home, `/, ${colorScheme}`);
      await shot(home, `index-${colorScheme}`);
      const first = await open(options, '/chat');
      await accessible(first, `the dialog, ${colorScheme}`);
      const line = new Line(), through = await line.open();
      const ada = await join('Ada', `axe-${colorScheme}`, options, through), bob = await join('Bob', `axe-${colorScheme}`);
      await say(ada, 'Good evening! Is the dark one as readable as the light one?');
      await hears(bob, 'Good evening! Is the dark one as readable as the light one?');
      await say(bob, 'axe measures the contrast of both.');
      await hears(ada, 'axe measures the contrast of both.');
      await ada.click('#slow-switch');
      await ada.waitForSelector('#slow-switch[aria-pressed=true]');
      await bob.click('#burst');
      await ada.waitForFunction(() => Number(document.getElementById('slow-lost').textContent) > 0);
      await accessible(ada, `the chat, ${colorScheme}`);
      await shot(ada, `chat-${colorScheme}-slow`);
      line.cut();
      await reads(ada, 'lost-text', 'Connection lost');
      await accessible(ada, `a lost connection, ${colorScheme}`);
      line.server.close();
      await bob.click('#slow-switch');
    }
  },
  async 'the choice of a theme stays'() {
    const page = await open({ ...desktop, colorScheme: 'light' }, '/');
    const dark = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const light = await dark();
    await page.click('#theme');
    await page.click('#theme');
    is('it is not dark', await dark() !== light);
    await page.goto(`${url}/chat`);
    await page.waitForFunction(() => document.documentElement.dataset.theme === 'dark');
  },
  async '/ws/echo sends back what Chromium compresses'() {
    const page = await open(desktop, '/');
    const [extensions, equal] = await page.evaluate(() => new Promise((resolve, reject) => {
      const socket = new WebSocket(`ws://${location.host}/ws/echo`), data = new Uint8Array(1 << 20).map((_, i) => i * i >> 7);
      socket.binaryType = 'arraybuffer';
      socket.onopen = () => socket.send(data);
      socket.onerror = () => reject(new Error('failed'));
      socket.onmessage = event => {
        const got = new Uint8Array(event.data);
        resolve([socket.extensions, got.length === data.length && got.every((byte, i) => byte === data[i])]);
      };
    }));
    is(`it is another message, or not compressed: ${extensions}`, equal && /permessage-deflate|^$/.test(extensions));
  },
  async 'over TLS'() {
    if (!secure) return;
    const ada = await join('Ada', 'tls', desktop, secure.replace('127.0.0.1', 'localhost')), bob = await join('Bob', 'tls');
    await say(ada, 'from TLS');
    await hears(bob, 'from TLS');
  },
  async '/debug/: plots, workers and tasks live'() {
    const page = await open(desktop, '/debug/'), bob = await join('Bob', 'watched');
    await reads(page, 'state', 'live');
    await page.waitForFunction(() => document.querySelectorAll('#workers .worker').length === 2);
    await page.waitForFunction(() => [...document.querySelectorAll('#plots polyline')].every(line => line.getAttribute('points').split(' ').length > 3));
    await page.waitForFunction(() => [...document.querySelectorAll('#tasks tbody th')].some(cell => cell.textContent === 'http connection'));
    await page.waitForFunction(() => [...document.querySelectorAll('canvas')].every(one => one.getContext('2d').getImageData(0, 0, one.width, one.height).data.some(byte => byte)));
    const tasks = () => page.$eval('#plots figure:nth-child(3) b', cell => Number(cell.textContent));
    const before = await tasks();
    await bob.evaluate(() => { for (let i = 0; i < 20; i++) fetch('/sleep/8000?' + i); });
    await page.waitForFunction(least => Number(document.querySelector('#plots figure:nth-child(3) b').textContent) > least, before);
    await page.click('#pause');
    await reads(page, 'state', 'paused');
    await page.click('#pause');
  },
  async '/debug/: the stack of a task, by a click and by the keyboard'() {
    const page = await open(desktop, '/debug/');
    await page.fill('#search', 'chat_keep_presence');
    const task = page.locator('#tree button:has-text("chat_keep_presence")');
    await task.click();
    await page.waitForFunction(() => [...document.querySelectorAll('.stack .theirs')].some(frame => /^chat_keep_presence +(\S*\/)?showcase\/chat.c:[0-9]+$/.test(frame.textContent)));
    is('the task above it is left out', await page.isVisible('#tree button:has-text("serve_both"), #tree button:has-text("main")'));
    is('it waits for something else', (await task.textContent()).includes('waits for an item of a channel'));
    await reads(page, 'found', '1 of ');
    await page.keyboard.press('Enter');
    same(await task.getAttribute('aria-expanded'), 'false');
    await page.fill('#search', 'no such task');
    await reads(page, 'tree', 'No task matches.');
  },
  async '/debug/: tasks that do the same are one row'() {
    const page = await open(desktop, '/debug/'), other = await open(desktop, '/');
    // not WebSockets that rest, which have no task
    await other.evaluate(() => { for (let i = 0; i < 16; i++) (window.kept ||= []).push(new WebSocket(`ws://${location.host}/chat/ws/rows?name=one${i}`)); });
    await page.waitForSelector('#tree .task em:has-text("×")');
    const row = page.locator('#tree .task', { has: page.locator('em:has-text("×")') }).first();
    const count = Number((await row.locator('em').textContent()).replace('× ', ''));
    await page.click('#pause'); // what is shown stays
    await row.click();
    is('there are fewer rows in it', await row.locator('xpath=following-sibling::ul/li').count() >= Math.min(count, 4));
  },
  async '/debug/: a trace is downloaded that Perfetto reads'() {
    const page = await open(desktop, '/debug/');
    await reads(page, 'state', 'live');
    const [download] = await Promise.all([page.waitForEvent('download'), page.click('#record')]);
    same(download.suggestedFilename(), 'coir-trace.json');
    const events = JSON.parse(require('fs').readFileSync(await download.path(), 'utf8')).traceEvents;
    is('it has no turns', events.some(event => event.ph === 'X' && event.dur >= 0 && event.name === 'http connection'));
    await reads(page, 'state', 'recorded');
  },
  async '/debug/: light, dark and on a phone, axe finds nothing'() {
    for (const [name, options] of [['light', { ...desktop, colorScheme: 'light' }], ['dark', { ...desktop, colorScheme: 'dark' }], ['phone', { ...phone, colorScheme: 'dark' }]]) {
      const page = await open(options, '/debug/');
      await page.waitForFunction(() => document.querySelectorAll('#tree .task').length > 2 && document.querySelectorAll('#tasks tbody tr').length > 2);
      await page.click('#tree .task');
      await page.waitForSelector('.stack');
      await page.waitForFunction(() => document.querySelector('#plots polyline').getAttribute('points').split(' ').length > 8);
      await accessible(page, `/debug/, ${name}`);
      is('it scrolls sideways', await page.evaluate(most => document.documentElement.scrollWidth <= most, options.viewport.width));
      await shot(page, `debug-${name}`);
    }
  },
  async '/debug/: it can be read only'() {
    const page = await open(desktop, '/debug/');
    for (const path of ['', 'metrics', 'events', 'tasks']) for (const method of ['POST', 'PUT', 'DELETE'])
      is(`${method} ${path} is answered`, await page.evaluate(async ([to, how]) => (await fetch(to, { method: how })).status, ['/debug/' + path, method]) === 405);
    const from = await page.evaluate(async () => (await fetch('trace', { method: 'GET' })).status);
    same(from, 405);
    said.splice(0, said.length, ...said.filter(text => !text.includes('405')));
  },
  async 'no page asks for what is elsewhere, or breaks its own policy'() {
    same(said, []);
  },
};

(async () => {
  browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
  for (const [name, check] of Object.entries(checks)) {
    if (process.env.ONLY && !name.includes(process.env.ONLY)) continue;
    try {
      await check();
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`not ok ${name}: ${error.message.split('\n').slice(0, 3).join(' ')}`);
    }
    for (const page of pages.splice(0)) await page.context().close();
  }
  await browser.close();
  process.exit();
})();
