/** The tokens of a project: a new one is shown only once; each can be revoked. */
import { type Signal, useSignal } from '@preact/signals';
import { READ_SCOPES, type Scope, SCOPE_IN_WORDS, SCOPES } from '../../../src/contract/names.js';
import type { NewTokenLimits } from '../../../src/contract/wire/token-limits.js';
import type { CreateTokenResponse, Token } from '../../../src/contract/wire/tokens.js';
import { copyText } from '../parts/clipboard.js';
import { Alert } from '../parts/announcements.js';
import { Notice, useDialog } from '../parts/dialog.js';
import { CheckboxField, Field, SelectField, TextField } from '../parts/fields.js';
import { Icon } from '../parts/icon.js';
import { day } from '../parts/formats.js';
import { ActionForm } from '../parts/action-form.js';
import { createToken, listTokens, revokeToken } from './admin-api.js';
import { useLoaded } from '../parts/loaded.js';
import { actionColumn, type Column, Table } from '../parts/table.js';
import { endOf, lastUseOf, limitsOf, scopesOf, stateOf } from '../parts/token-words.js';

export function Tokens({ project }: { project: string }) {
  const { value: tokens, error, reload } = useLoaded(() => listTokens(project), project);
  const { dialog, open } = useDialog();
  const create = () =>
    open((close) => (
      <NewToken
        project={project}
        onClose={close}
        onDone={({ token }) => {
          open((done) => <ShownOnce token={token} onClose={done} />);
          void reload();
        }}
      />
    ));
  const revoke = (token: Token) =>
    open((close) => <Revoke project={project} token={token} onClose={close} onDone={() => void reload()} />);
  return (
    <section aria-labelledby="tokens-title" aria-busy={tokens === undefined}>
      <header class="operate-head">
        <h2 id="tokens-title">Tokens</h2>
        <button type="button" class="button" onClick={create}>
          <Icon name="plus" />
          New token
        </button>
      </header>
      <Alert>{error}</Alert>
      {tokens?.length === 0 && <p class="quiet">No tokens yet. Without one, nobody can use this project.</p>}
      {tokens !== undefined && tokens.length > 0 && <TokenTable tokens={tokens} onRevoke={revoke} />}
      {dialog}
    </section>
  );
}

const TokenTable = ({ tokens, onRevoke }: { tokens: readonly Token[]; onRevoke: (token: Token) => void }) => (
  <Table
    label="List of tokens"
    rows={tokens}
    keyOf={({ id }) => id}
    classOf={(token) => (stateOf(token) === 'good' ? '' : 'is-over')}
    columns={[
      {
        title: 'Name',
        cells: 'is-text',
        hint: ({ id, created_by: by }) => (by === null ? id : `${id}, created by ${by}`),
        cell: (token) => (
          <>
            {token.name}
            <p class="narrow-only quiet">
              {scopesOf(token)}
              {token.role !== null && `, as ${token.role}`}
            </p>
            {token.limits !== null && <p class="quiet">{limitsOf(token)}</p>}
          </>
        ),
      },
      { title: 'Scopes', class: 'wide-only', cells: 'is-text', cell: scopesOf },
      ...(tokens.some(({ role }) => role !== null) ? [ROLE] : []),
      { title: 'Last used', class: 'wide-only', cell: lastUseOf },
      { title: 'Created', class: 'wide-only', cell: ({ created_at: at }) => day(at) },
      { title: 'Expires', cell: endOf },
      actionColumn({
        text: 'Revoke',
        label: ({ name }) => `Revoke ${name}`,
        run: onRevoke,
        isShown: (token) => stateOf(token) === 'good',
      }),
    ]}
  />
);

const ROLE: Column<Token> = { title: 'Role', class: 'wide-only', cells: 'is-text mono', cell: ({ role }) => role };

/** In days. */
const LIFETIMES = [
  ['', 'Never'],
  ['1', 'After a day'],
  ['30', 'After 30 days'],
  ['90', 'After 90 days'],
  ['365', 'After a year'],
] as const;

interface NewTokenProps {
  project: string;
  onClose: () => void;
  onDone: (response: CreateTokenResponse) => void;
}

function NewToken({ project, onClose, onDone }: NewTokenProps) {
  const name = useSignal('');
  const scopes = useSignal<readonly Scope[]>(READ_SCOPES);
  const role = useSignal('');
  const limits = useSignal<LimitTexts>(NO_LIMITS);
  const users = useSignal<Users>('');
  const days = useSignal('90');
  const toggle = (scope: Scope) =>
    (scopes.value = SCOPES.filter((each) => scopes.value.includes(each) !== (each === scope)));
  const expiresAt = days.value === '' ? null : new Date(Date.now() + Number(days.value) * 86_400_000).toISOString();
  // They are shown, and sent, only for a token that they can narrow.
  const canBePublic = scopes.value.join() === 'data:append';
  const narrowed = canBePublic ? limitsFrom(limits.value, users.value) : null;
  const wanted = {
    name: name.value.trim(),
    scopes: scopes.value,
    role: role.value.trim(),
    limits: narrowed,
    expiresAt,
  };
  return (
    <ActionForm<CreateTokenResponse>
      title={`New token for ${project}`}
      action="Create"
      done="Token created"
      request={scopes.value.length === 0 ? null : createToken(project, wanted)}
      onClose={onClose}
      onDone={onDone}
    >
      <TextField label="Name" class="" text={name} maxLength={200} placeholder="Who will use it?" />
      <fieldset class="scopes">
        <legend class="field-label">It may</legend>
        {SCOPES.map((scope) => (
          <CheckboxField
            key={scope}
            label={
              <>
                {SCOPE_IN_WORDS[scope]} <code class="quiet">{scope}</code>
              </>
            }
            isChecked={scopes.value.includes(scope)}
            onChange={() => toggle(scope)}
          />
        ))}
      </fieldset>
      <TextField label="Role" text={role} placeholder="none" aria-describedby="role-help" />
      <p id="role-help" class="quiet">
        A role of the project, as which the token does everything. <code>GRANT</code> then decides what it may do within
        these scopes.
      </p>
      {canBePublic && <Limits texts={limits} users={users} />}
      <SelectField label="Expires" value={days.value} items={LIFETIMES} onChange={(chosen) => (days.value = chosen)} />
    </ActionForm>
  );
}

/** As typed. */
const NO_LIMITS = {
  tables: '',
  origins: '',
  requests_per_second: '',
  requests_per_day: '',
  rows_per_second: '',
  rows_per_day: '',
};
type LimitTexts = typeof NO_LIMITS;

const LIMIT_LABELS: Readonly<Record<keyof LimitTexts, string>> = {
  tables: 'Only into the tables',
  origins: 'Only pages of the origins',
  requests_per_second: 'Requests a second',
  requests_per_day: 'Requests a day',
  rows_per_second: 'Rows a second',
  rows_per_day: 'Rows a day',
};

/** Whether its events change the traits of users and accounts; '': as the service decides. */
type Users = '' | 'on' | 'off';

const USERS: readonly (readonly [Users, string])[] = [
  ['', 'Not with origins'],
  ['on', 'Yes'],
  ['off', 'No'],
];

/** null: nothing is typed. What is no number is sent as it is, and refused with a message. */
function limitsFrom(texts: LimitTexts, users: Users): NewTokenLimits | null {
  const typed = Object.entries(texts).filter(([, text]) => text.trim() !== '');
  const values = typed.map(([name, text]) => {
    if (name === 'tables' || name === 'origins') return [name, text.split(/[\s,]+/).filter((item) => item !== '')];
    return [name, /^\s*\d+\s*$/.test(text) ? Number(text) : text];
  });
  if (users !== '') values.push(['users', users]);
  return values.length === 0 ? null : (Object.fromEntries(values) as NewTokenLimits);
}

const Limits = ({ texts, users }: { texts: Signal<LimitTexts>; users: Signal<Users> }) => (
  <fieldset class="scopes">
    <legend class="field-label">Limits</legend>
    <p class="quiet">A token that may be public, such as in a web page, needs them. Empty: no limit.</p>
    {(Object.keys(NO_LIMITS) as (keyof LimitTexts)[]).map((name) => (
      <Field key={name} label={LIMIT_LABELS[name]}>
        <input
          class="mono"
          autocomplete="off"
          spellcheck={false}
          value={texts.value[name]}
          placeholder={name === 'origins' ? 'https://shop.example.com' : ''}
          onInput={(event) => (texts.value = { ...texts.value, [name]: event.currentTarget.value })}
        />
      </Field>
    ))}
    <SelectField
      label="Its events change the traits of users and accounts"
      value={users.value}
      items={USERS}
      onChange={(chosen) => (users.value = chosen as Users)}
    />
  </fieldset>
);

const ShownOnce = ({ token, onClose }: { token: string; onClose: () => void }) => (
  <Notice title="The new token" onClose={onClose}>
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
  </Notice>
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
      <CheckboxField
        label="End its running requests too"
        isChecked={now.value}
        onChange={(isNow) => (now.value = isNow)}
      />
    </ActionForm>
  );
}
