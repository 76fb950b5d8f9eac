/** The frame around every screen: the project's name, links to the screens, and the logout button. */
import './shell.css';
import { useSignal } from '@preact/signals';
import type { FunctionComponent } from 'preact';
import { useEffect } from 'preact/hooks';
import { isKept } from '../kept-tokens.js';
import { Icon, IconButton } from '../parts/icon.js';
import { ThemeButton } from '../parts/theme-button.js';
import { Toast } from '../parts/announcements.js';
import { linkTo, replaceRoute, route } from '../route.js';
import { type ScreenEntry, type ScreenProps, usefulScreens } from '../screens.js';
import { currentSession, leave } from '../session.js';
import { KeyMap, keyMapIsOpen, useShellKeys } from './key-map.js';
import { ProjectMenu } from './project-menu.js';

export function Shell() {
  const { project, token } = currentSession();
  const screens = usefulScreens();
  const [name, ...path] = route.value;
  const screen = screens.find((candidate) => candidate.path === name) ?? screens[0];
  useShellKeys(screens);
  useEffect(() => {
    if (screen !== undefined && screen.path !== name) replaceRoute(screen.path);
    document.title = [screen?.label, project?.name, 'Console'].filter(Boolean).join(' · ');
  }, [screen, name]);

  return (
    <div class="shell">
      <header class="bar">
        <ProjectMenu />
        <nav class="bar-nav" aria-label="Screens">
          {screens.map(({ path: target, label }) => (
            <a key={target} href={linkTo(target)} aria-current={target === screen?.path ? 'page' : undefined}>
              {label}
            </a>
          ))}
        </nav>
        <div class="bar-end">
          <button
            type="button"
            class="button is-icon wide-only"
            title="Keys (?)"
            aria-label="Keyboard map"
            onClick={() => (keyMapIsOpen.value = true)}
          >
            <Icon name="keyboard" />
          </button>
          <ThemeButton />
          <IconButton
            icon="leave"
            label="Leave"
            title={isKept(token) ? 'Leave: this browser keeps the token' : 'Leave: forget the token'}
            onClick={() => leave()}
          />
        </div>
      </header>
      {screen === undefined ? <NothingToShow /> : <Loaded key={screen.path} screen={screen} path={path} />}
      {keyMapIsOpen.value && <KeyMap screens={screens} />}
      <Toast />
    </div>
  );
}

function Loaded({ screen, path }: { screen: ScreenEntry } & ScreenProps) {
  const Component = useSignal<FunctionComponent<ScreenProps> | null>(null);
  const error = useSignal('');
  useEffect(() => {
    screen.load().then(
      (component) => (Component.value = component),
      () => (error.value = 'This part of the console could not be loaded. Reload the page.'),
    );
  }, [screen]);
  if (error.value !== '')
    return (
      <main class="empty">
        <p role="alert">{error.value}</p>
      </main>
    );
  const Part = Component.value;
  return Part === null ? <main class="empty" aria-busy="true" aria-label="Loading" /> : <Part path={path} />;
}

function NothingToShow() {
  const { project, scopes } = currentSession();
  return (
    <main class="empty">
      <h1>Nothing to show for this token</h1>
      {project === null ? (
        <p>An admin token manages projects and tokens. Enter a project&rsquo;s token to see its tables.</p>
      ) : (
        <p>
          It may only do this: <code>{[...scopes].join(', ')}</code>. For SQL a token needs <code>sql:read</code>, for
          the tables <code>schema:read</code>. To load a file with it, run <code>cdp import</code>.
        </p>
      )}
    </main>
  );
}
