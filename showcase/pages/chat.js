// The chat's client. All that comes from others is put into the page as text.
const byId = id => document.getElementById(id);
const rooms = ['lobby', 'c-talk', 'help', 'random'];
const LOG_MOST = 500, SLOTS = 16, TYPING_MS = 4000, TYPING_EVERY_MS = 2500;
const BACK_OFF_MS = 500, BACK_OFF_MOST_MS = 15000;

const log = byId('log'), text = byId('text'), people = byId('people');
let name = localStorage.getItem('name') || '';
let room = '', socket = null, you = 0;
let epoch = '', sequence = 0; // of the last message that is in the log
let target = 0, ready = false; // the history that a new connection sends reaches to `target`
let catching = false; // messages were missed, and asked for
let failures = 0, retryTimer = 0, retryAt = 0;
let unseen = 0, typedAt = 0;
const members = new Map(); // id: name
const typing = new Map(); // id: when it ends
const outbox = new Map(); // tag: text; the first is on its way
let nextTag = 1;

// ---- the log ----

const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 80;
const toEnd = () => { log.scrollTop = log.scrollHeight; byId('newer').hidden = true; };

function append(element) {
  const stay = !atEnd();
  log.append(element);
  while (log.childElementCount > LOG_MOST) log.firstElementChild.remove();
  if (stay) byId('newer').hidden = false;
  else toEnd();
}

function note(words) {
  const element = document.createElement('div');
  element.className = 'note';
  element.textContent = words;
  append(element);
}

// Of one who goes on within a minute the name is heard, but not seen again.
const FOLLOWS_MS = 60000;
const follows = (by, at, mine) => {
  const last = log.lastElementChild;
  return last?.dataset.by === by && last.classList.contains('mine') === mine && at - last.dataset.at < FOLLOWS_MS;
};

function messageElement(by, at, words, mine) {
  const element = document.createElement('div'), head = document.createElement('div');
  const who = document.createElement('b'), when = document.createElement('time'), body = document.createElement('p');
  element.className = 'message';
  element.classList.toggle('mine', mine);
  element.classList.toggle('follows', follows(by, at, mine));
  element.dataset.by = by;
  element.dataset.at = at;
  head.className = 'by';
  who.textContent = by;
  when.dateTime = new Date(at).toISOString();
  when.textContent = new Date(at).toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' });
  body.textContent = words;
  head.append(who, when);
  element.append(head, body);
  return element;
}

function showTitle() {
  document.title = `${unseen ? `(${unseen}) ` : ''}#${room} · coir`;
}

// ---- the connection ----

function setStatus(state, words) {
  byId('status').dataset.state = state;
  byId('status').textContent = words;
}

function connect() {
  clearTimeout(retryTimer);
  retryAt = 0;
  if (socket) { socket.onclose = socket.onmessage = null; socket.close(); }
  setStatus('connecting', 'Connecting');
  const query = new URLSearchParams({ name, since: sequence, epoch });
  const own = socket = new WebSocket(`${location.protocol.replace('http', 'ws')}//${location.host}/chat/ws/${room}?${query}`);
  socket.onmessage = event => { if (own === socket) receive(JSON.parse(event.data)); };
  socket.onclose = () => { if (own === socket) retryLater(); };
}

function retryLater() {
  const wait = Math.min(BACK_OFF_MOST_MS, BACK_OFF_MS * 2 ** failures++) * (0.7 + 0.6 * Math.random());
  ready = false;
  setStatus('lost', 'Not connected');
  showMembers(new Map());
  retryAt = Date.now() + wait;
  retryTimer = setTimeout(connect, wait);
  showLost();
}

function showLost() {
  byId('lost').hidden = !retryAt;
  if (!retryAt) return;
  byId('lost-text').textContent = `Connection lost. Trying again in ${Math.max(1, Math.ceil((retryAt - Date.now()) / 1000))} s; what you write is kept.`;
  setTimeout(showLost, 500);
}

const send = words => { if (socket && socket.readyState === WebSocket.OPEN) socket.send(words); };

// One message at a time is on its way: what was not accepted is sent again, in order.
function sendNext() {
  const [next] = outbox;
  if (ready && next) send(`say ${next[0]} ${next[1]}`);
}

const handlers = {
  hello(message) {
    if (epoch && epoch !== String(message.epoch)) {
      note('The server was restarted.');
      sequence = 0;
    }
    epoch = String(message.epoch);
    you = message.you;
    target = message.sequence;
    failures = 0;
    retryAt = 0;
    catching = false;
    log.setAttribute('aria-busy', 'true');
    showLost();
    setStatus('open', 'Connected');
    showMembers(new Map(message.members.map(member => [member.id, member.name])));
    becomeReady();
  },
  said(message) {
    if (message.sequence <= sequence) return;
    const missed = sequence ? message.sequence - sequence - 1 : 0;
    if (missed && ready && !catching) {
      catching = true;
      send(`since ${sequence}`);
      return;
    }
    if (missed) note(missed === 1 ? 'A message is missing.' : `${missed} messages are missing.`);
    catching = false;
    sequence = message.sequence;
    const kept = outbox.get(message.tag);
    if (kept !== undefined && kept === message.text) {
      outbox.delete(message.tag);
      document.querySelector(`[data-tag="${message.tag}"]`)?.remove();
      append(messageElement(message.name, message.at, message.text, true));
      sendNext();
    } else {
      append(messageElement(message.name, message.at, message.text, message.id === you));
    }
    typing.delete(message.id);
    showTyping();
    if (document.hidden && ready) { unseen++; showTitle(); }
    becomeReady();
  },
  joined(message) {
    const known = members.has(message.id);
    members.set(message.id, message.name);
    showMembers(members);
    if (!known && message.id !== you && ready) note(`${message.name} has joined`);
  },
  left(message) {
    if (members.delete(message.id)) note(`${message.name} has left`);
    typing.delete(message.id);
    showMembers(members);
    showTyping();
  },
  typing(message) {
    if (message.id === you) return;
    typing.set(message.id, Date.now() + TYPING_MS);
    showTyping();
    setTimeout(showTyping, TYPING_MS + 50);
  },
  notice(message) {
    note(message.text);
    setTimeout(sendNext, 1200);
  },
  slow: showSlow,
};

function receive(message) {
  if (Object.hasOwn(handlers, message.type)) handlers[message.type](message);
}

// The whole history has come: what was written meanwhile is sent, unless it is in there.
function becomeReady() {
  if (ready || sequence < target) return;
  ready = true;
  log.setAttribute('aria-busy', 'false');
  sendNext();
}

// ---- who is there ----

function showMembers(list) {
  if (list !== members) {
    members.clear();
    for (const [id, by] of list) members.set(id, by);
  }
  people.replaceChildren(...[...members].sort((a, b) => a[1].localeCompare(b[1])).map(([id, by]) => {
    const item = document.createElement('li'), dot = document.createElement('span'), words = document.createElement('span');
    dot.className = 'dot';
    words.textContent = by;
    item.append(dot, words);
    if (id === you) {
      const mark = document.createElement('span');
      mark.className = 'you';
      mark.textContent = '(you)';
      item.append(mark);
    }
    return item;
  }));
  byId('people-title').textContent = `Here now · ${members.size}`;
}

function showTyping() {
  const names = [];
  for (const [id, until] of typing) {
    if (until < Date.now() || !members.has(id)) typing.delete(id);
    else names.push(members.get(id));
  }
  byId('typing').textContent = names.length === 0 ? '' : names.length === 1 ? `${names[0]} is typing …`
    : names.length < 4 ? `${names.join(', ')} are typing …` : 'Several people are typing …';
}

// ---- the slow reader ----

const slots = Array.from({ length: SLOTS }, () => document.createElement('i'));
byId('queue').append(...slots);

function showSlow(state) {
  const queued = state.queued || 0;
  slots.forEach((slot, i) => slot.classList.toggle('full', i < queued));
  byId('queue').setAttribute('aria-valuenow', queued);
  byId('slow-switch').setAttribute('aria-pressed', state.on);
  byId('slow-switch').textContent = state.on ? 'Switch off' : 'Switch on';
  if (state.policy && document.activeElement !== byId('policy')) byId('policy').value = state.policy;
  byId('policy').disabled = state.on;
  if (state.policy) {
    byId('slow-queued').textContent = queued;
    byId('slow-read').textContent = state.read;
    byId('slow-lost').textContent = state.lost;
  }
  const words = !state.on ? 'It is off.'
    : state.closed ? 'Its queue was full: it is disconnected when it has read what is left.'
      : queued === SLOTS ? 'Its queue is full.' : 'It reads.';
  if (byId('slow-said').textContent !== words) byId('slow-said').textContent = words;
  byId('slow-said').classList.toggle('bad', Boolean(state.closed));
}

byId('slow-switch').addEventListener('click', () => {
  send(`slow ${byId('slow-switch').getAttribute('aria-pressed') === 'true' ? 'off' : byId('policy').value}`);
});
byId('burst').addEventListener('click', () => send('burst'));

// ---- writing ----

function write() {
  const words = text.value.trim();
  if (!words) return;
  const tag = `${Date.now().toString(36)}-${nextTag++}`;
  outbox.set(tag, words);
  const element = messageElement(name, Date.now(), words, true);
  element.classList.add('pending');
  element.dataset.tag = tag;
  // it is announced and comes to its place when it has come back
  element.setAttribute('aria-hidden', 'true');
  append(element);
  toEnd();
  text.value = '';
  if (outbox.size === 1) sendNext();
}

byId('composer').addEventListener('submit', event => { event.preventDefault(); write(); text.focus(); });
text.addEventListener('keydown', event => {
  if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  write();
});
text.addEventListener('input', () => {
  if (!text.value || Date.now() - typedAt < TYPING_EVERY_MS) return;
  typedAt = Date.now();
  send('typing');
});

// ---- rooms, and names ----

function enterRoom(next) {
  room = next;
  epoch = '';
  sequence = target = 0;
  ready = false;
  failures = 0;
  outbox.clear();
  typing.clear();
  log.replaceChildren();
  showTyping();
  byId('room-title').textContent = `#${room}`;
  showTitle();
  const all = rooms.includes(room) ? rooms : [...rooms, room];
  byId('rooms').replaceChildren(...all.map(one => {
    const item = document.createElement('li'), link = document.createElement('a');
    link.href = `#${one}`;
    link.textContent = one;
    if (one === room) link.setAttribute('aria-current', 'page');
    item.append(link);
    return item;
  }));
  if (name) connect();
  else byId('who').showModal();
}

const roomOf = words => words.toLowerCase().replace(/[^a-z0-9-]+/g, '-').replace(/^-+|-+$/g, '').slice(0, 24);
const followHash = () => { enterRoom(roomOf(decodeURIComponent(location.hash.slice(1))) || rooms[0]); openPanel(''); };
window.addEventListener('hashchange', followHash);
byId('other').addEventListener('submit', event => {
  event.preventDefault();
  const next = roomOf(byId('other-name').value);
  byId('other-name').value = '';
  if (next) location.hash = next;
});

byId('rename').addEventListener('click', () => { byId('name').value = name; byId('who').showModal(); });
byId('who').addEventListener('cancel', event => { if (!name) event.preventDefault(); });
byId('who-form').addEventListener('submit', event => {
  event.preventDefault();
  const bytes = words => new TextEncoder().encode(words).length;
  let chosen = byId('name').value.trim();
  while (bytes(chosen) > 48) chosen = [...chosen].slice(0, -1).join('');
  if (!chosen) return;
  name = chosen;
  localStorage.setItem('name', name);
  byId('who').close();
  failures = 0;
  connect();
  text.focus();
});

// ---- what is beside the log, where there is no room for it ----

function openPanel(which) {
  for (const panel of ['side', 'slow']) {
    document.body.classList.toggle(`panel-open-${panel}`, panel === which);
    byId(`open-${panel}`).setAttribute('aria-expanded', panel === which);
  }
}
for (const panel of ['side', 'slow'])
  byId(`open-${panel}`).addEventListener('click', () =>
    openPanel(document.body.classList.contains(`panel-open-${panel}`) ? '' : panel));
document.addEventListener('keydown', event => {
  if (event.key === 'Escape') openPanel('');
});

byId('retry').addEventListener('click', connect);
byId('newer').addEventListener('click', () => { toEnd(); text.focus(); });
log.addEventListener('scroll', () => { if (atEnd()) byId('newer').hidden = true; });
window.addEventListener('online', () => { if (retryAt) connect(); });
document.addEventListener('visibilitychange', () => { if (!document.hidden) { unseen = 0; showTitle(); } });
showSlow({ on: false });
followHash();
