/**
 * The login screen, where the user types or pastes a token. It stays in memory, or on request in this tab's
 * sessionStorage or this browser's localStorage.
 */
import './enter.css';
import { useSignal } from '@preact/signals';
import { useLayoutEffect, useRef } from 'preact/hooks';
import { CdpError } from '../../../src/client/index.js';
import { CheckboxField, Field } from '../parts/fields.js';
import { isKept } from '../kept-tokens.js';
import { Icon } from '../parts/icon.js';
import { ThemeButton } from '../parts/theme-button.js';
import { KeptTokens, WHAT_KEEPING_MEANS } from '../parts/kept-token-list.js';
import { enter, farewell, type Keeping, leave, rememberedToken } from '../session.js';

export function EnterScreen() {
  const error = useSignal('');
  const isBusy = useSignal(rememberedToken() !== null);
  const field = useRef<HTMLInputElement>(null);
  const keeping = useSignal<Keeping>('no');

  const tryToken = async (token: string, where: Keeping) => {
    error.value = '';
    isBusy.value = true;
    const wasKept = isKept(token);
    try {
      await enter(token, where);
    } catch (thrown) {
      error.value = explain(thrown);
      if (wasKept && !isKept(token)) error.value += ' It was removed from this browser.';
      isBusy.value = false;
    }
  };

  // Before the page is painted, so that the first characters typed go to the field.
  useLayoutEffect(() => {
    document.title = 'Console';
    const token = rememberedToken();
    if (token === null) field.current?.focus();
    else
      void tryToken(token, 'tab').then(() => {
        if (error.value !== '') leave(error.value);
      });
  }, []);

  const submit = (event: Event) => {
    event.preventDefault();
    const token = field.current?.value ?? '';
    if (token.trim() === '') error.value = 'Paste a token first.';
    else void tryToken(token, keeping.value);
    field.current?.focus();
  };

  const message = error.value || farewell.value;
  return (
    <main class="enter">
      <form class="enter-card" onSubmit={submit} aria-busy={isBusy.value}>
        <header class="enter-head">
          <Icon name="database" />
          <h1>CDP Data Engine</h1>
          <ThemeButton />
        </header>
        <Field label="Token">
          <input
            ref={field}
            type="password"
            name="token"
            class="mono"
            autocomplete="off"
            autocapitalize="off"
            spellcheck={false}
            placeholder="cdp_…"
            aria-describedby="enter-help enter-error"
            aria-invalid={message !== ''}
          />
        </Field>
        <p id="enter-error" class="enter-error" role="alert">
          {message}
        </p>
        <CheckboxField
          label="Keep it until this tab is closed"
          isChecked={keeping.value !== 'no'}
          onChange={(isChecked) => (keeping.value = isChecked ? 'tab' : 'no')}
        />
        <CheckboxField
          label="Keep it in this browser"
          isChecked={keeping.value === 'browser'}
          onChange={(isChecked) => (keeping.value = isChecked ? 'browser' : 'no')}
        />
        {keeping.value === 'browser' && <p class="quiet">{WHAT_KEEPING_MEANS}</p>}
        <button type="submit" class="button is-primary" disabled={isBusy.value}>
          {isBusy.value ? 'Checking …' : 'Open the console'}
        </button>
        <KeptTokens onEnter={(token) => void tryToken(token, 'tab')} />
        <div id="enter-help" class="enter-help">
          <p>
            The first start of the service prints a token. To make another one, run this on the server:{' '}
            <code>cdp token create --project PROJECT</code>
          </p>
          <p>The token stays in this tab, unless you say otherwise, and is sent only to this service.</p>
        </div>
      </form>
    </main>
  );
}

function explain(thrown: unknown): string {
  if (!(thrown instanceof CdpError)) return 'That is not a token: it has characters that cannot be sent.';
  if (thrown.status === 401) return 'The service does not know this token, or it has expired or was revoked.';
  if (thrown.code === 'network_error') return 'The service does not respond. Is it running?';
  return thrown.message;
}
