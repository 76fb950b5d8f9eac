/** The roles of the project: a list, and a form for a new one. */
import '../operate/operate.css';
import { useSignal } from '@preact/signals';
import { isRoleName } from '../../../src/contract/names.js';
import type { Role, RoleResponse } from '../../../src/contract/wire/roles.js';
import { ActionForm } from '../parts/action-form.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { TextField } from '../parts/fields.js';
import { ago } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { useLoaded } from '../parts/loaded.js';
import { Empty, Screen } from '../parts/screen.js';
import { Table } from '../parts/table.js';
import { goTo, linkTo } from '../route.js';
import { CommentField } from '../schema/fields.js';
import type { ScreenProps } from '../screens.js';
import { currentSession, hasScope } from '../session.js';
import { RoleView } from './role-view.js';

export const RolesScreen = ({ path: [name] }: ScreenProps) =>
  name === undefined ? <AllRoles /> : <RoleView key={name} name={name} />;

function AllRoles() {
  const canList = hasScope('schema:read');
  const { value: roles, error } = useLoaded(async () => (canList ? currentSession().client.roles() : []), '');
  const { dialog, open } = useDialog();
  const hasRoles = roles !== undefined && roles.length > 0;
  return (
    <Screen
      title="Roles"
      about={hasRoles ? 'A token that acts as a role may do only what GRANT gives the role.' : undefined}
      isBusy={roles === undefined && error === ''}
      actions={
        <button
          type="button"
          class="button is-primary"
          onClick={() => open((close) => <CreateRoleForm onClose={close} />)}
        >
          <Icon name="plus" />
          Create role
        </button>
      }
    >
      <Alert>{error}</Alert>
      {!canList && (
        <Empty title="This token may not list the roles">
          For that it needs <code>schema:read</code>. It may create, see and drop them.
        </Empty>
      )}
      {canList && roles?.length === 0 && (
        <Empty title="No roles yet">
          A role reads and writes only what <code>GRANT</code> gives it: some tables, or some of their columns. Create
          one, grant it rights in SQL, then have a token made that acts as it.
        </Empty>
      )}
      {hasRoles && <RoleTable roles={roles} />}
      {dialog}
    </Screen>
  );
}

const RoleTable = ({ roles }: { roles: readonly Role[] }) => (
  <Table
    label="List of roles"
    rows={roles}
    keyOf={({ name }) => name}
    columns={[
      { title: 'Name', cells: 'is-text', cell: ({ name }) => <a href={linkTo('roles', name)}>{name}</a> },
      { title: 'Name in SQL', cells: 'is-text mono', cell: ({ postgres_name }) => postgres_name },
      { title: 'Comment', class: 'wide-only', cells: 'is-text', cell: ({ comment }) => comment },
      {
        title: 'Created',
        class: 'wide-only',
        cells: 'quiet',
        cell: ({ created_at }) => <time dateTime={created_at}>{ago(Date.parse(created_at))}</time>,
      },
    ]}
  />
);

function CreateRoleForm({ onClose }: { onClose: () => void }) {
  const name = useSignal('');
  const comment = useSignal('');
  const isName = isRoleName(name.value);
  const body = { name: name.value, ...(comment.value === '' ? {} : { comment: comment.value }) };
  return (
    <ActionForm<RoleResponse>
      title="New role"
      action="Create role"
      done={({ role }) => `Role ${role.name} created`}
      request={isName ? { method: 'POST', path: '/api/cdp/schema/role', body } : null}
      onClose={onClose}
      onDone={({ role }) => goTo('roles', role.name)}
    >
      <TextField
        label="Name"
        placeholder="intern"
        text={name}
        aria-invalid={name.value !== '' && !isName}
        aria-describedby="name-help"
      />
      <p id="name-help" class="quiet">
        Lowercase letters, digits and underscores, beginning with a letter; at most 40 characters.
      </p>
      <CommentField text={comment} />
    </ActionForm>
  );
}
