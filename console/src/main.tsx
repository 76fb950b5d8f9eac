/** The page's first line: the shell if a token was entered, otherwise the log-in screen. */
import './style/base.css';
import './style/parts.css';
import './theme.js';
import { render } from 'preact';
import { EnterScreen } from './enter/enter-screen.js';
import { session } from './session.js';
import { Shell } from './shell/shell.js';

const App = () => (session.value === null ? <EnterScreen /> : <Shell key={session.value.token} />);

const place = document.getElementById('app');
if (place !== null) render(<App />, place);
