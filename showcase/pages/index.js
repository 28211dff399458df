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
    const text = await (await fetch('/metrics')).text();
    for (const figure of document.querySelectorAll('[data-stat]')) {
      const values = [...text.matchAll(new RegExp(`^coir_${figure.dataset.stat}(?:{.*})? (.*)$`, 'gm'))].map(found => Number(found[1]));
      const of = { sum: values.reduce((sum, value) => sum + value, 0), count: values.length }; // of all workers
      figure.textContent = of[figure.dataset.of || 'sum'].toLocaleString('en');
    }
  } catch {
    // the server has gone, or is being restarted: ask again
  }
  if (!document.hidden) setTimeout(showFigures, 2000);
}
document.addEventListener('visibilitychange', () => { if (!document.hidden) showFigures(); });
showFigures();
