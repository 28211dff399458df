// What all pages share: the choice between light, dark and what the system says.
const themes = ['auto', 'light', 'dark'];
const button = document.getElementById('theme');
let theme = localStorage.getItem('theme');
if (!themes.includes(theme)) theme = 'auto';

function show() {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  button.textContent = `Theme: ${theme}`;
}

button.addEventListener('click', () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  localStorage.setItem('theme', theme);
  show();
});
show();
