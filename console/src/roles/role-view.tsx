/** One role: its tokens, what it may do, how to give it rights, and how to drop it. */
import { useSignal } from '@preact/signals';
import { LIMITS } from '../../../src/contract/limits.js';
import type { DetailedRole, DropRoleResponse, TablePrivileges } from '../../../src/contract/wire/roles.js';
import type { Token } from '../../../src/contract/wire/tokens.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { copyText } from '../parts/clipboard.js';
import { useDialog } from '../parts/dialog.js';
import { TextField } from '../parts/fields.js';
import { counted, day } from '../parts/formats.js';
import { Icon, IconButton } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Table } from '../parts/table.js';
import { endOf, lastUseOf, scopesOf, stateOf } from '../parts/token-words.js';
import { goTo, linkTo, linkToQuery } from '../route.js';
import { currentSession, hasScope } from '../session.js';
import { quoted } from '../sql/sql-names.js';

export function RoleView({ name }: { name: string }) {
  const { value: role, error } = useLoaded(() => currentSession().client.role(name), '');
  const { dialog, open } = useDialog();
  return (
    <main class="operate" aria-busy={role === undefined && error === ''}>
      <header class="operate-head">
        <div>
          <a class="back" href={linkTo('roles')}>
            <Icon name="left" />
            Roles
          </a>
          <h1>{name}</h1>
          {role?.comment && <p>{role.comment}</p>}
        </div>
        {role !== undefined && (
          <button
            type="button"
            class="button is-danger"
            onClick={() => open((close) => <DropRoleForm name={name} onClose={close} />)}
          >
            Drop role
          </button>
        )}
      </header>
      <Alert>{error}</Alert>
      {role !== undefined && <Details role={role} />}
      {dialog}
    </main>
  );
}

const Details = ({
  role: { name, postgres_name: postgresName, created_at, tokens, tables },
}: {
  role: DetailedRole;
}) => (
  <>
    <dl class="facts">
      <div>
        <dt>Name in SQL</dt>
        <dd class="mono">{postgresName}</dd>
      </div>
      <div>
        <dt>Created</dt>
        <dd>
          <time dateTime={created_at}>{day(created_at)}</time>
        </dd>
      </div>
    </dl>
    <section aria-labelledby="rights-title">
      <h2 id="rights-title">What it may do</h2>
      {tables.length === 0 ? (
        <p class="quiet">It has no rights to any table yet.</p>
      ) : (
        <PrivilegeTable tables={tables} />
      )}
      {tables.length >= LIMITS.tablesOfRole && (
        <p class="quiet">More than {LIMITS.tablesOfRole} tables are not listed.</p>
      )}
      <GrantHint role={name} statement={`GRANT SELECT (…) ON … TO ${quoted(postgresName)};`} />
    </section>
    <section aria-labelledby="tokens-title">
      <h2 id="tokens-title">Tokens</h2>
      {tokens.length === 0 ? (
        <p class="quiet">
          No token acts as it. An operator makes one: <code>cdp token create … --role {name}</code>.
        </p>
      ) : (
        <TokenTable tokens={tokens} />
      )}
    </section>
  </>
);

const PrivilegeTable = ({ tables }: { tables: readonly TablePrivileges[] }) => (
  <Table
    label="Privileges"
    rows={tables}
    keyOf={nameOf}
    columns={[
      { title: 'Table', cells: 'is-text mono', cell: nameOf },
      { title: 'Privileges', cells: 'is-text mono', cell: privilegesOf },
      { title: 'Rows', cell: ({ row_security: isByPolicies }) => (isByPolicies ? 'by policies' : 'all') },
    ]}
  />
);

/** As SQL names it. */
const nameOf = ({ schema, table }: TablePrivileges): string =>
  schema === 'data' ? quoted(table) : `${quoted(schema)}.${quoted(table)}`;

/** As GRANT takes them: `SELECT (id, country), INSERT`. */
const privilegesOf = ({ privileges, columns }: TablePrivileges): string =>
  (['SELECT', 'INSERT', 'UPDATE', 'DELETE'] as const)
    .flatMap((privilege) => {
      if (privileges.includes(privilege)) return privilege;
      const some = privilege === 'DELETE' ? undefined : columns[privilege];
      return some === undefined ? [] : `${privilege} (${some.map(quoted).join(', ')})`;
    })
    .join(', ');

const GrantHint = ({ role, statement }: { role: string; statement: string }) => (
  <>
    <p>
      To give it rights, run this in{' '}
      {hasScope('sql:write') ? <a href={linkToQuery(statement, `Rights of ${role}`)}>the SQL screen</a> : 'SQL'}, with a
      table, and with the columns that it may read; for all columns, leave out the parentheses.{' '}
      <code>REVOKE … FROM</code> takes rights away. Both take effect at once.
    </p>
    <div class="curl-body">
      <pre tabIndex={0}>{statement}</pre>
      <IconButton icon="copy" label="Copy the statement" onClick={() => void copyText(statement, 'Statement copied')} />
    </div>
  </>
);

const TokenTable = ({ tokens }: { tokens: readonly Token[] }) => (
  <Table
    label="List of tokens"
    rows={tokens}
    keyOf={({ id }) => id}
    classOf={(token) => (stateOf(token) === 'good' ? '' : 'is-over')}
    columns={[
      { title: 'Name', cells: 'is-text', cell: ({ name }) => name },
      { title: 'Scopes', cells: 'is-text', cell: scopesOf },
      { title: 'Expires', cell: endOf },
      { title: 'Last used', class: 'wide-only', cell: lastUseOf },
    ]}
  />
);

function DropRoleForm({ name, onClose }: { name: string; onClose: () => void }) {
  const typed = useSignal('');
  const request = { method: 'DELETE', path: `/api/cdp/schema/role/${encodeURIComponent(name)}` } as const;
  return (
    <ActionForm<DropRoleResponse>
      title={`Drop the role ${name}`}
      action="Drop role"
      done={({ revoked_tokens: tokens, dropped_large_objects: objects }) =>
        `Role ${name} dropped: ${counted(tokens, 'token')} revoked, ${counted(objects, 'large object')} dropped`
      }
      isDangerous
      request={typed.value === name ? request : null}
      onClose={onClose}
      onDone={() => goTo('roles')}
    >
      <p>
        Its tokens are revoked, and its requests and sessions end. Its rights, its large objects and policies that are
        only for it are dropped.
      </p>
      <TextField
        label={
          <>
            This cannot be undone. To continue, type <code>{name}</code>.
          </>
        }
        text={typed}
      />
    </ActionForm>
  );
}
