/** All projects of the service with their sizes, and a form for a new one. */
import './operate.css';
import { useSignal } from '@preact/signals';
import { isProjectName } from '../../../src/contract/names.js';
import type { Project } from '../../../src/contract/wire/projects.js';
import { Alert } from '../parts/announcements.js';
import { useDialog } from '../parts/dialog.js';
import { TextField } from '../parts/fields.js';
import { ago, counted, size } from '../parts/formats.js';
import { Icon } from '../parts/icon.js';
import { Empty, Screen } from '../parts/screen.js';
import { actionColumn, Table } from '../parts/table.js';
import { goTo, linkTo } from '../route.js';
import type { ScreenProps } from '../screens.js';
import { ActionForm } from '../parts/action-form.js';
import { createProject, listProjects } from './admin-api.js';
import { useLoaded } from '../parts/loaded.js';
import { OpenProject } from './open-project.js';
import { ProjectView } from './project-view.js';
import { Status } from './facts.js';

export function ProjectsScreen({ path }: ScreenProps) {
  const { value: projects, error, reload } = useLoaded(listProjects, '');
  const { dialog, open } = useDialog();
  const [chosen] = path;
  const project = projects?.find(({ name }) => name === chosen);
  if (chosen !== undefined && project !== undefined) {
    return <ProjectView key={project.id} project={project} reload={reload} />;
  }
  const hasProjects = projects !== undefined && projects.length > 0;
  return (
    <Screen
      title="Projects"
      about={hasProjects ? summary(projects) : undefined}
      isBusy={projects === undefined}
      actions={
        <button
          type="button"
          class="button is-primary"
          onClick={() => open((close) => <NewProject onClose={close} reload={reload} />)}
        >
          <Icon name="plus" />
          New project
        </button>
      }
    >
      <Alert>
        {error}
        {chosen !== undefined && projects !== undefined && `There is no project “${chosen}”.`}
      </Alert>
      {projects?.length === 0 && (
        <Empty title="No projects yet">
          A project has its own database and tokens. Create one, then create a token for each program that uses it.
        </Empty>
      )}
      {hasProjects && (
        <ProjectTable
          projects={projects}
          onOpen={(one) => open((close) => <OpenProject project={one} onClose={close} />)}
        />
      )}
      {dialog}
    </Screen>
  );
}

function summary(projects: readonly Project[]): string {
  const bytes = projects.reduce((sum, { size_bytes = 0 }) => sum + size_bytes, 0);
  return `${counted(projects.length, 'project')}, ${size(bytes)} on disk`;
}

interface ProjectTableProps {
  readonly projects: readonly Project[];
  readonly onOpen: (project: Project) => void;
}

const ProjectTable = ({ projects, onOpen }: ProjectTableProps) => {
  const largest = Math.max(...projects.map(({ size_bytes = 0 }) => size_bytes), 1);
  return (
    <Table
      label="Projects"
      rows={projects}
      keyOf={({ id }) => id}
      columns={[
        { title: 'Name', cells: 'is-text', cell: ({ name }) => <a href={linkTo('projects', name)}>{name}</a> },
        { title: 'Status', cell: ({ status }) => <Status status={status} /> },
        {
          title: 'Size',
          class: 'is-number',
          cell: ({ size_bytes: bytes }) => (
            <>
              {bytes === undefined ? '' : size(bytes)}
              <svg class="bar-of-size wide-only" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
                <rect width={((bytes ?? 0) / largest) * 100} height="4" />
              </svg>
            </>
          ),
        },
        { title: 'Quota', class: 'wide-only', cells: 'quiet', cell: ({ quota }) => quota },
        {
          title: 'Created',
          class: 'wide-only',
          cells: 'quiet',
          cell: ({ created_at }) => <time dateTime={created_at}>{ago(Date.parse(created_at))}</time>,
        },
        {
          ...actionColumn({
            text: 'Open',
            label: ({ name }) => `Open ${name}`,
            run: onOpen,
            isShown: ({ status }) => status === 'active',
          }),
          class: 'wide-only',
        },
      ]}
    />
  );
};

function NewProject({ onClose, reload }: { onClose: () => void; reload: () => Promise<void> }) {
  const name = useSignal('');
  const isName = isProjectName(name.value);
  return (
    <ActionForm
      title="New project"
      action="Create"
      done={`Project ${name.value} created`}
      request={isName ? createProject(name.value) : null}
      onClose={onClose}
      onDone={() => void reload().then(() => goTo('projects', name.value))}
    >
      <TextField
        label="Name"
        placeholder="shop"
        text={name}
        aria-invalid={name.value !== '' && !isName}
        aria-describedby="name-help"
      />
      <p id="name-help" class="quiet">
        Lowercase letters, digits and hyphens, beginning with a letter; at most 63 characters.
      </p>
    </ActionForm>
  );
}
