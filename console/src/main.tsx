/** Renders the shell if there is a session, otherwise the login screen. */
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
