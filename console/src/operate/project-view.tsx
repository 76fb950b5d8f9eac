/** One project: its size and quota, its tokens, and actions. */
import { useSignal } from '@preact/signals';
import type { JSX } from 'preact';
import { isProjectName } from '../../../src/contract/names.js';
import type { Project } from '../../../src/contract/wire/projects.js';
import { useDialog } from '../parts/dialog.js';
import { CheckboxField, TextField } from '../parts/fields.js';
import { useLoaded } from '../parts/loaded.js';
import { size, day } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { goTo, linkTo } from '../route.js';
import { ActionForm } from '../parts/action-form.js';
import {
  activateProject,
  deactivateProject,
  deleteProject,
  listServers,
  renameProject,
  setQuota,
} from './admin-api.js';
import { MoveForm } from './move-form.js';
import { OpenProject } from './open-project.js';
import { Status } from './facts.js';
import { Tokens } from './tokens.js';

interface ProjectProps {
  project: Project;
  reload: () => Promise<void>;
}

export function ProjectView({ project, reload }: ProjectProps) {
  const { dialog, open } = useDialog();
  const { name, status, quota, size_bytes, created_at, id, server } = project;
  const { value: servers = [] } = useLoaded(listServers, '');
  const isActive = status === 'active';
  const form = (Form: (props: FormProps) => JSX.Element) => () =>
    open((close) => <Form project={project} reload={reload} onClose={close} />);
  const move = () =>
    open((close) => (
      <MoveForm project={name} from={server} servers={servers} onClose={close} onDone={() => void reload()} />
    ));
  return (
    <main class="operate">
      <header class="operate-head">
        <div>
          <a class="back" href={linkTo('projects')}>
            <Icon name="left" />
            Projects
          </a>
          <h1>
            {name} <Status status={status} />
          </h1>
        </div>
        <div class="actions">
          {isActive && (
            <button type="button" class="button" onClick={form(OpenProject)}>
              Open
            </button>
          )}
          <button type="button" class="button" onClick={form(Rename)}>
            Rename
          </button>
          <button type="button" class="button" onClick={form(isActive ? Deactivate : Activate)}>
            {isActive ? 'Deactivate' : 'Activate'}
          </button>
          <button type="button" class="button is-danger" onClick={form(Delete)}>
            Delete
          </button>
        </div>
      </header>
      <dl class="facts">
        <div>
          <dt>Size on disk</dt>
          <dd>{size_bytes === undefined ? 'unknown' : size(size_bytes)}</dd>
        </div>
        <div>
          <dt>Quota</dt>
          <dd>
            {quota === 'default' ? 'the service’s default' : quota}{' '}
            <button type="button" class="button is-quiet" onClick={form(Quota)}>
              Change
            </button>
          </dd>
        </div>
        <div>
          <dt>Server</dt>
          <dd>
            {server}{' '}
            {servers.length > 1 && (
              <button type="button" class="button is-quiet" onClick={move}>
                Move
              </button>
            )}
          </dd>
        </div>
        <div>
          <dt>Created</dt>
          <dd>
            <time dateTime={created_at}>{day(created_at)}</time>
          </dd>
        </div>
        <div>
          <dt>Id</dt>
          <dd class="mono">{id}</dd>
        </div>
      </dl>
      <p>
        <a href={`${linkTo('audit')}?project=${encodeURIComponent(name)}`}>What was done in this project</a>
      </p>
      <Tokens project={name} />
      {dialog}
    </main>
  );
}

type FormProps = ProjectProps & { onClose: () => void };

const Activate = ({ project: { name }, reload, onClose }: FormProps) => (
  <ActionForm
    title={`Activate ${name}`}
    action="Activate"
    done={`Project ${name} is active`}
    request={activateProject(name)}
    onClose={onClose}
    onDone={() => void reload()}
  >
    <p>Its tokens work again within a second.</p>
  </ActionForm>
);

function Rename({ project: { name }, reload, onClose }: FormProps) {
  const next = useSignal(name);
  const isName = isProjectName(next.value) && next.value !== name;
  return (
    <ActionForm
      title={`Rename ${name}`}
      action="Rename"
      done={`Renamed to ${next.value}`}
      request={isName ? renameProject(name, next.value) : null}
      onClose={onClose}
      onDone={() => void reload().then(() => goTo('projects', next.value))}
    >
      <TextField label="New name" text={next} />
      <p class="quiet">Its data and tokens stay as they are. JWTs that name the old project are rejected.</p>
    </ActionForm>
  );
}

function Quota({ project: { name, quota }, reload, onClose }: FormProps) {
  const next = useSignal(quota);
  return (
    <ActionForm
      title={`Quota of ${name}`}
      action="Set the quota"
      done="Quota set"
      request={next.value.trim() === '' ? null : setQuota(name, next.value.trim())}
      onClose={onClose}
      onDone={() => void reload()}
    >
      <TextField label="Disk quota" text={next} />
      <p class="quiet">
        A size such as <code>500MB</code> or <code>10GB</code>, <code>default</code> for the setting of the service, or{' '}
        <code>none</code>. A project over its quota can still read and delete.
      </p>
    </ActionForm>
  );
}

function Deactivate({ project: { name }, reload, onClose }: FormProps) {
  const now = useSignal(false);
  return (
    <ActionForm
      title={`Deactivate ${name}`}
      action="Deactivate"
      done={`Project ${name} is inactive`}
      request={deactivateProject(name, now.value)}
      onClose={onClose}
      onDone={() => void reload()}
    >
      <p>Its requests are rejected until it is activated again. Nothing is deleted.</p>
      <CheckboxField
        label="End the requests that are running. Otherwise this waits for them, about 70 s at most."
        isChecked={now.value}
        onChange={(isNow) => (now.value = isNow)}
      />
    </ActionForm>
  );
}

function Delete({ project: { name, size_bytes }, reload, onClose }: FormProps) {
  const typed = useSignal('');
  return (
    <ActionForm
      title={`Delete ${name}`}
      action="Delete for good"
      done={`Project ${name} deleted`}
      isDangerous
      request={typed.value === name ? deleteProject(name) : null}
      onClose={onClose}
      onDone={() => {
        goTo('projects');
        void reload();
      }}
    >
      <p>
        All of its tables{size_bytes === undefined ? '' : ` (${size(size_bytes)})`} and tokens go with it. This cannot
        be undone, except from a backup.
      </p>
      <TextField
        label={
          <>
            Type <code>{name}</code> to confirm
          </>
        }
        text={typed}
      />
    </ActionForm>
  );
}
