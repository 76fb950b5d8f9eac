/** One project: its size and quota, its tokens, and what can be done with it. */
import { useSignal } from '@preact/signals';
import type { Project } from '../../../src/contract/wire/projects.js';
import { useLoaded } from '../parts/loaded.js';
import { size } from '../parts/numbers.js';
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
import { Status } from './status.js';
import { day } from '../parts/times.js';
import { Tokens } from './tokens.js';

type Action = 'rename' | 'quota' | 'move' | 'activate' | 'deactivate' | 'delete';

interface ProjectProps {
  project: Project;
  reload: () => Promise<void>;
}

export function ProjectView({ project, reload }: ProjectProps) {
  const action = useSignal<Action | null>(null);
  const { name, status, quota, size_bytes, created_at, id, server } = project;
  const { value: servers = [] } = useLoaded(listServers, '');
  const isActive = status === 'active';
  const close = () => (action.value = null);
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
          <button type="button" class="button" onClick={() => (action.value = 'rename')}>
            Rename
          </button>
          <button type="button" class="button" onClick={() => (action.value = isActive ? 'deactivate' : 'activate')}>
            {isActive ? 'Deactivate' : 'Activate'}
          </button>
          <button type="button" class="button is-danger" onClick={() => (action.value = 'delete')}>
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
            <button type="button" class="button is-quiet" onClick={() => (action.value = 'quota')}>
              Change
            </button>
          </dd>
        </div>
        <div>
          <dt>Server</dt>
          <dd>
            {server}{' '}
            {servers.length > 1 && (
              <button type="button" class="button is-quiet" onClick={() => (action.value = 'move')}>
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
      {action.value === 'rename' && <Rename project={project} reload={reload} onClose={close} />}
      {action.value === 'quota' && <Quota project={project} reload={reload} onClose={close} />}
      {action.value === 'move' && (
        <MoveForm project={name} from={server} servers={servers} onClose={close} onDone={() => void reload()} />
      )}
      {action.value === 'activate' && (
        <ActionForm
          title={`Activate ${name}`}
          action="Activate"
          done={`Project ${name} is active`}
          request={activateProject(name)}
          onClose={close}
          onDone={() => void reload()}
        >
          <p>Its tokens work again within a second.</p>
        </ActionForm>
      )}
      {action.value === 'deactivate' && <Deactivate project={project} reload={reload} onClose={close} />}
      {action.value === 'delete' && <Delete project={project} reload={reload} onClose={close} />}
    </main>
  );
}

type FormProps = ProjectProps & { onClose: () => void };

function Rename({ project: { name }, reload, onClose }: FormProps) {
  const next = useSignal(name);
  const isName = /^[a-z][a-z0-9-]{0,62}$/.test(next.value) && next.value !== name;
  return (
    <ActionForm
      title={`Rename ${name}`}
      action="Rename"
      done={`Renamed to ${next.value}`}
      request={isName ? renameProject(name, next.value) : null}
      onClose={onClose}
      onDone={() => void reload().then(() => goTo('projects', next.value))}
    >
      <label class="field">
        <span class="field-label">New name</span>
        <input
          class="mono"
          autocomplete="off"
          spellcheck={false}
          value={next.value}
          onInput={(event) => (next.value = event.currentTarget.value)}
        />
      </label>
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
      <label class="field">
        <span class="field-label">Disk quota</span>
        <input
          class="mono"
          autocomplete="off"
          spellcheck={false}
          value={next.value}
          onInput={(event) => (next.value = event.currentTarget.value)}
        />
      </label>
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
      <label class="check">
        <input type="checkbox" checked={now.value} onChange={(event) => (now.value = event.currentTarget.checked)} />
        <span>End the requests that are running. Otherwise this waits for them, about 70 s at most.</span>
      </label>
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
      <label class="field">
        <span class="field-label">
          Type <code>{name}</code> to confirm
        </span>
        <input
          class="mono"
          autocomplete="off"
          spellcheck={false}
          value={typed.value}
          onInput={(event) => (typed.value = event.currentTarget.value)}
        />
      </label>
    </ActionForm>
  );
}
