/** All projects of the service: what each takes, and a way to make another. */
import './operate.css';
import { useSignal } from '@preact/signals';
import type { Project } from '../../../src/contract/wire/projects.js';
import { ago, counted, size } from '../parts/numbers.js';
import { Icon } from '../parts/icon.js';
import { goTo, linkTo } from '../route.js';
import type { ScreenProps } from '../screens.js';
import { ActionForm } from '../parts/action-form.js';
import { createProject, listProjects } from './admin-api.js';
import { useLoaded } from '../parts/loaded.js';
import { ProjectView } from './project-view.js';
import { Status } from './status.js';

const NAME = /^[a-z][a-z0-9-]{0,62}$/;

export function ProjectsScreen({ path }: ScreenProps) {
  const { value: projects, error, reload } = useLoaded(listProjects, '');
  const isMaking = useSignal(false);
  const [chosen] = path;
  const project = projects?.find(({ name }) => name === chosen);
  if (chosen !== undefined && project !== undefined) {
    return <ProjectView key={project.id} project={project} reload={reload} />;
  }
  return (
    <main class="operate" aria-busy={projects === undefined}>
      <header class="operate-head">
        <div>
          <h1>Projects</h1>
          {projects !== undefined && projects.length > 0 && <p class="quiet">{summary(projects)}</p>}
        </div>
        <button type="button" class="button is-primary" onClick={() => (isMaking.value = true)}>
          <Icon name="plus" />
          New project
        </button>
      </header>
      <p class="bad" role="alert">
        {error}
        {chosen !== undefined && projects !== undefined && `There is no project “${chosen}”.`}
      </p>
      {projects?.length === 0 && (
        <div class="empty">
          <h2>No projects yet</h2>
          <p>
            A project has its own database and tokens. Create one, then create a token for each program that uses it.
          </p>
        </div>
      )}
      {projects !== undefined && projects.length > 0 && <ProjectTable projects={projects} />}
      {isMaking.value && <NewProject onClose={() => (isMaking.value = false)} reload={reload} />}
    </main>
  );
}

function summary(projects: readonly Project[]): string {
  const bytes = projects.reduce((sum, { size_bytes = 0 }) => sum + size_bytes, 0);
  return `${counted(projects.length, 'project')}, ${size(bytes)} on disk`;
}

const ProjectTable = ({ projects }: { projects: readonly Project[] }) => {
  const largest = Math.max(...projects.map(({ size_bytes = 0 }) => size_bytes), 1);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Projects">
      <table class="list">
        <thead>
          <tr>
            <th scope="col">Name</th>
            <th scope="col">Status</th>
            <th scope="col" class="is-number">
              Size
            </th>
            <th scope="col" class="wide-only">
              Quota
            </th>
            <th scope="col" class="wide-only">
              Created
            </th>
          </tr>
        </thead>
        <tbody>
          {projects.map(({ id, name, status, size_bytes, quota, created_at }) => (
            <tr key={id}>
              <th scope="row" class="is-text">
                <a href={linkTo('projects', name)}>{name}</a>
              </th>
              <td>
                <Status status={status} />
              </td>
              <td class="is-number">
                {size_bytes === undefined ? '' : size(size_bytes)}
                <svg class="bar-of-size wide-only" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
                  <rect width={((size_bytes ?? 0) / largest) * 100} height="4" />
                </svg>
              </td>
              <td class="wide-only quiet">{quota}</td>
              <td class="wide-only quiet">
                <time dateTime={created_at}>{ago(Date.parse(created_at))}</time>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
};

function NewProject({ onClose, reload }: { onClose: () => void; reload: () => Promise<void> }) {
  const name = useSignal('');
  const isName = NAME.test(name.value);
  return (
    <ActionForm
      title="New project"
      action="Create"
      done={`Project ${name.value} created`}
      request={isName ? createProject(name.value) : null}
      onClose={onClose}
      onDone={() => void reload().then(() => goTo('projects', name.value))}
    >
      <label class="field">
        <span class="field-label">Name</span>
        <input
          class="mono"
          autocomplete="off"
          spellcheck={false}
          placeholder="shop"
          value={name.value}
          aria-invalid={name.value !== '' && !isName}
          aria-describedby="name-help"
          onInput={(event) => (name.value = event.currentTarget.value)}
        />
      </label>
      <p id="name-help" class="quiet">
        Lowercase letters, digits and hyphens, beginning with a letter; at most 63 characters.
      </p>
    </ActionForm>
  );
}
