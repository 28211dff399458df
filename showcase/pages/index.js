const byId = id => document.getElementById(id);

byId('echo').addEventListener('click', async () => {
  const answer = await fetch('/echo', { method: 'POST', body: `sent at ${new Date().toISOString()}` });
  byId('echo-out').textContent = `${answer.status}: ${await answer.text()}`;
});

byId('ws-echo').addEventListener('click', () => {
  const socket = new WebSocket(`${location.protocol.replace('http', 'ws')}//${location.host}/ws/echo`);
  const began = performance.now();
  socket.onopen = () => socket.send('hello');
  socket.onmessage = event => {
    byId('ws-echo-out').textContent = `“${event.data}” came back ${(performance.now() - began).toFixed(1)} ms after connecting`;
    socket.close();
  };
  socket.onerror = () => { byId('ws-echo-out').textContent = 'The server does not answer.'; };
});

async function showFigures() {
  try {
    const text = await (await fetch('/stats')).text();
    const stats = new Map(text.trim().split('\n').map(line => line.split(' ')));
    for (const figure of document.querySelectorAll('[data-stat]'))
      figure.textContent = Number(stats.get(figure.dataset.stat)).toLocaleString('en');
  } catch {
    // the server has gone, or is being restarted: ask again
  }
  if (!document.hidden) setTimeout(showFigures, 2000);
}
document.addEventListener('visibilitychange', () => { if (!document.hidden) showFigures(); });
showFigures();
