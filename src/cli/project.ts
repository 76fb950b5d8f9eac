/** `cdp project …`: create, list, activate, deactivate, repair, set the quota of and delete projects. */
import { createInterface } from 'node:readline/promises';
import { Argument, Command } from 'commander';
import { roundedSize } from '../contract/disk-size.js';
import { EngineError } from '../contract/errors.js';
import type { Project, ProjectAnswer, ProjectsAnswer, RepairAnswer } from '../contract/wire/projects.js';
import type { AdminClient } from './admin-client.js';
import { aligned, managementOptions, print, withAdmin } from './management.js';
import { printable } from './remote/terminal-text.js';

export function projectCommand(): Command {
  return new Command('project')
    .description('Manage projects')
    .addCommand(
      onOne('create', 'Create a project with a database of its own', 'created', (admin, name) =>
        admin.call('POST', 'admin/projects', { name }),
      ),
    )
    .addCommand(list())
    .addCommand(
      onOne('activate', 'Let a project be used again', 'active', (admin, name) =>
        admin.call('POST', `${pathOf(name)}/activate`),
      ),
    )
    .addCommand(
      onOne('deactivate', 'Answer every call of a project with 403', 'inactive', (admin, name) =>
        admin.call('POST', `${pathOf(name)}/deactivate`),
      ),
    )
    .addCommand(archive())
    .addCommand(repair())
    .addCommand(quota())
    .addCommand(remove());
}

const pathOf = (name: string): string => `admin/projects/${encodeURIComponent(name)}`;

type Work = (admin: AdminClient, name: string) => Promise<ProjectAnswer>;

function onOne(verb: string, description: string, outcome: string, work: Work): Command {
  const command = new Command(verb).description(description).argument('<NAME>');
  return managementOptions(command).action((name: string) =>
    withAdmin(command, async (admin) => {
      const { project } = await work(admin, name);
      print(command, project, [`Project ${project.name} ${outcome}`]);
    }),
  );
}

function archive(): Command {
  const command = new Command('archive')
    .description(
      "Archive the write-ahead log of a project's server, so that a backup can be restored to any time since",
    )
    .argument('<NAME>')
    .addArgument(new Argument('<on|off>').choices(['on', 'off']));
  return managementOptions(command).action((name: string, state: string) =>
    withAdmin(command, async (admin) => {
      const on = state === 'on';
      await admin.call('POST', 'local/archive', { project: name, on });
      print(command, { name, archive: on }, [
        `The log of project ${name} is ${on ? 'archived from now on' : 'no longer archived'}`,
      ]);
    }),
  );
}

function repair(): Command {
  const command = new Command('repair')
    .description('Put right what a project did to its own roles, rights and schema; its rows stay as they are')
    .argument('<NAME>');
  return managementOptions(command).action((name: string) =>
    withAdmin(command, async (admin) => {
      const { project, repaired } = await admin.call<RepairAnswer>('POST', `${pathOf(name)}/repair`);
      const lines = [`Project ${project.name} repaired`, ...repaired.map((what) => `- ${printable(what)}`)];
      print(command, { ...project, repaired }, lines);
    }),
  );
}

function list(): Command {
  const command = new Command('list').description('List all projects');
  return managementOptions(command).action(() =>
    withAdmin(command, async (admin) => {
      const { projects } = await admin.call<ProjectsAnswer>('GET', 'admin/projects');
      print(command, projects, aligned([['NAME', 'STATUS', 'SIZE', 'QUOTA', 'CREATED'], ...projects.map(cellsOf)]));
    }),
  );
}

const cellsOf = ({ name, status, size_bytes: size, quota, created_at: created }: Project): string[] => [
  name,
  status,
  size === undefined ? '-' : roundedSize(size),
  quota,
  created,
];

function quota(): Command {
  const command = new Command('quota')
    .description('Set the disk quota of a project: a size such as 10GB, "default" or "none"')
    .argument('<NAME>')
    .argument('<SIZE>');
  return managementOptions(command).action((name: string, size: string) =>
    withAdmin(command, async (admin) => {
      const { project } = await admin.call<ProjectAnswer>('PUT', `${pathOf(name)}/quota`, { quota: size });
      print(command, project, [`Project ${project.name} has the quota ${project.quota}`]);
    }),
  );
}

function remove(): Command {
  const command = new Command('delete')
    .description('Delete a project with everything in it; there is no way back')
    .argument('<NAME>')
    .option('--yes', 'Without being asked');
  return managementOptions(command).action(async (name: string) => {
    if (command.opts<{ yes?: boolean }>().yes !== true) await confirm(name);
    await withAdmin(command, async (admin) => {
      const query = `confirm=${encodeURIComponent(name)}`;
      const { project } = await admin.call<ProjectAnswer>('DELETE', `${pathOf(name)}?${query}`);
      print(command, project, [`Project ${project.name} deleted`]);
    });
  });
}

/** A person types the name again; nobody is there to do so in a script, which has to say that it means it. */
async function confirm(name: string): Promise<void> {
  if (!process.stdin.isTTY) {
    throw new EngineError('invalid_request', `Deleting "${name}" cannot be undone. Without a terminal it takes --yes`);
  }
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const left = new Promise<string>((resolve) => terminal.once('close', () => resolve('')).once('SIGINT', resolve));
  try {
    const question = `Deleting "${name}" cannot be undone. Type its name to go on: `;
    const answer = await Promise.race([terminal.question(question), left]);
    if (answer !== name) throw new Error('Not deleted: its name was not typed');
  } finally {
    terminal.close();
  }
}
