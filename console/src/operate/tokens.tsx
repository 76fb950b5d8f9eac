/** The tokens of a project: made, shown once, revoked. */
import { useSignal } from '@preact/signals';
import { type Scope, SCOPES } from '../../../src/contract/names.js';
import type { CreateTokenAnswer, Token } from '../../../src/contract/wire/tokens.js';
import { copyText } from '../parts/clipboard.js';
import { Dialog } from '../parts/dialog.js';
import { Icon } from '../parts/icon.js';
import { ago } from '../parts/numbers.js';
import { ActionForm } from '../parts/action-form.js';
import { createToken, listTokens, revokeToken } from './admin-api.js';
import { useLoaded } from '../parts/loaded.js';
import { day } from '../parts/times.js';

export function Tokens({ project }: { project: string }) {
  const { value: tokens, error, reload } = useLoaded(() => listTokens(project), project);
  const isMaking = useSignal(false);
  const made = useSignal('');
  const revoking = useSignal<Token | null>(null);
  return (
    <section aria-labelledby="tokens-title" aria-busy={tokens === undefined}>
      <header class="operate-head">
        <h2 id="tokens-title">Tokens</h2>
        <button type="button" class="button" onClick={() => (isMaking.value = true)}>
          <Icon name="plus" />
          New token
        </button>
      </header>
      <p class="bad" role="alert">
        {error}
      </p>
      {tokens?.length === 0 && <p class="quiet">No tokens yet. Without one, nobody can use this project.</p>}
      {tokens !== undefined && tokens.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="List of tokens">
          <table class="list">
            <thead>
              <tr>
                <th scope="col">Name</th>
                <th scope="col" class="wide-only">
                  Scopes
                </th>
                <th scope="col" class="wide-only">
                  Last used
                </th>
                <th scope="col">Expires</th>
                <th scope="col">
                  <span class="sr-only">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {tokens.map((token) => (
                <tr key={token.id} class={stateOf(token) === 'good' ? '' : 'is-over'}>
                  <th scope="row" class="is-text" title={token.id}>
                    {token.name}
                    <p class="narrow-only quiet">{scopesOf(token)}</p>
                  </th>
                  <td class="is-text wide-only">{scopesOf(token)}</td>
                  <td class="wide-only">
                    {token.last_used_at === null ? 'never' : ago(Date.parse(token.last_used_at))}
                  </td>
                  <td>{endOf(token)}</td>
                  <td class="is-end">
                    {stateOf(token) === 'good' && (
                      <button
                        type="button"
                        class="button is-quiet"
                        aria-label={`Revoke ${token.name}`}
                        onClick={() => (revoking.value = token)}
                      >
                        Revoke
                      </button>
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {isMaking.value && (
        <NewToken
          project={project}
          onClose={() => (isMaking.value = false)}
          onDone={({ token }) => {
            made.value = token;
            void reload();
          }}
        />
      )}
      {made.value !== '' && <ShownOnce token={made.value} onClose={() => (made.value = '')} />}
      {revoking.value !== null && (
        <Revoke
          project={project}
          token={revoking.value}
          onClose={() => (revoking.value = null)}
          onDone={() => void reload()}
        />
      )}
    </section>
  );
}

const scopesOf = ({ scopes }: Token): string => (scopes.length === SCOPES.length ? 'all scopes' : scopes.join(', '));

function stateOf({ revoked_at, expires_at }: Token): 'good' | 'revoked' | 'expired' {
  if (revoked_at !== null) return 'revoked';
  return expires_at !== null && Date.parse(expires_at) <= Date.now() ? 'expired' : 'good';
}

function endOf(token: Token): string {
  const state = stateOf(token);
  if (state !== 'good') return state;
  return token.expires_at === null ? 'never' : day(token.expires_at);
}

/** Days; null: never. */
const LIFETIMES: readonly [string, number | null][] = [
  ['Never', null],
  ['After a day', 1],
  ['After 30 days', 30],
  ['After a year', 365],
];

const WHAT: Readonly<Record<Scope, string>> = {
  'schema:read': 'see tables and columns',
  'schema:write': 'create and change tables',
  'data:write': 'insert, update and delete records',
  'sql:read': 'run SQL that reads',
  'sql:write': 'run any SQL',
};

interface NewTokenProps {
  project: string;
  onClose: () => void;
  onDone: (answer: CreateTokenAnswer) => void;
}

function NewToken({ project, onClose, onDone }: NewTokenProps) {
  const name = useSignal('');
  const scopes = useSignal<readonly Scope[]>(SCOPES);
  const expiresAt = useSignal<string | null>(null);
  const toggle = (scope: Scope) =>
    (scopes.value = SCOPES.filter((each) => scopes.value.includes(each) !== (each === scope)));
  const choose = (index: number) => {
    const days = LIFETIMES[index]?.[1] ?? null;
    expiresAt.value = days === null ? null : new Date(Date.now() + days * 86_400_000).toISOString();
  };
  const wanted = { name: name.value.trim(), scopes: scopes.value, expiresAt: expiresAt.value };
  return (
    <ActionForm<CreateTokenAnswer>
      title={`New token for ${project}`}
      action="Create"
      done="Token created"
      request={scopes.value.length === 0 ? null : createToken(project, wanted)}
      onClose={onClose}
      onDone={onDone}
    >
      <label class="field">
        <span class="field-label">Name</span>
        <input
          autocomplete="off"
          maxLength={200}
          placeholder="Who will use it?"
          value={name.value}
          onInput={(event) => (name.value = event.currentTarget.value)}
        />
      </label>
      <fieldset class="scopes">
        <legend class="field-label">It may</legend>
        {SCOPES.map((scope) => (
          <label key={scope} class="check">
            <input type="checkbox" checked={scopes.value.includes(scope)} onChange={() => toggle(scope)} />
            <span>
              {WHAT[scope]} <code class="quiet">{scope}</code>
            </span>
          </label>
        ))}
      </fieldset>
      <label class="field">
        <span class="field-label">Expires</span>
        <select onChange={(event) => choose(event.currentTarget.selectedIndex)}>
          {LIFETIMES.map(([label]) => (
            <option key={label}>{label}</option>
          ))}
        </select>
      </label>
    </ActionForm>
  );
}

const ShownOnce = ({ token, onClose }: { token: string; onClose: () => void }) => (
  <Dialog title="The new token" onClose={onClose}>
    <p>Copy it now. The service keeps only its hash, so it cannot be shown again.</p>
    <div class="curl-body">
      <pre tabIndex={0} data-token>
        {token}
      </pre>
      <button type="button" class="button" autofocus onClick={() => void copyText(token, 'Token copied')}>
        <Icon name="copy" />
        Copy
      </button>
    </div>
    <div class="dialog-actions">
      <button type="button" class="button is-primary" onClick={onClose}>
        Done
      </button>
    </div>
  </Dialog>
);

interface RevokeProps {
  project: string;
  token: Token;
  onClose: () => void;
  onDone: () => void;
}

function Revoke({ project, token: { id, name }, onClose, onDone }: RevokeProps) {
  const now = useSignal(false);
  return (
    <ActionForm
      title={`Revoke ${name}`}
      action="Revoke"
      done={`${name} revoked`}
      isDangerous
      request={revokeToken(project, id, now.value)}
      onClose={onClose}
      onDone={onDone}
    >
      <p>Programs that use it are refused within a second. A revoked token cannot be restored.</p>
      <label class="check">
        <input type="checkbox" checked={now.value} onChange={(event) => (now.value = event.currentTarget.checked)} />
        <span>End its running requests too</span>
      </label>
    </ActionForm>
  );
}
