/** `cdp project …`: create, list, activate, deactivate, archive, repair, limit and delete projects. */
import { Argument, Command } from 'commander';
import { roundedSize } from '../contract/disk-size.js';
import { counted } from '../contract/message-text.js';
import { messageOf } from '../contract/errors.js';
import { isReady } from '../contract/projects.js';
import type { Project, ProjectResponse, ProjectsResponse, RepairResponse } from '../contract/wire/projects.js';
import type { ProjectLocation } from '../contract/wire/admin-socket.js';
import { tableLines } from './terminal/grid.js';
import { printable } from './terminal/text.js';
import type { AdminSocketClient } from './admin-socket-client.js';
import {
  confirm,
  type Labels,
  labelOption,
  operatorOptions,
  nowQuery,
  operatorAction,
  withAdminSocket,
} from './operator-commands.js';
import { UsageError } from './exit.js';
import { moveCommand, movesCommand } from './project-move.js';
import { print, warn } from './terminal/output.js';

export function projectCommand(): Command {
  return new Command('project')
    .description('Manage projects')
    .addCommand(create())
    .addCommand(list())
    .addCommand(rename())
    .addCommand(
      simple('activate', 'Activate a deactivated project', 'active', (admin, name) =>
        admin.call('POST', `${pathOf(name)}/activate`),
      ),
    )
    .addCommand(
      simple(
        'deactivate',
        'Deactivate a project: reject all its requests with 403, and wait for running ones',
        'inactive',
        (admin, name, command) => admin.call('POST', `${pathOf(name)}/deactivate${nowQuery(command)}`),
      ).option('--now', 'End running requests instead of waiting for them'),
    )
    .addCommand(moveCommand())
    .addCommand(movesCommand())
    .addCommand(archive())
    .addCommand(repair())
    .addCommand(quota())
    .addCommand(ownSchemas())
    .addCommand(remove());
}

const pathOf = (name: string): string => `admin/projects/${encodeURIComponent(name)}`;

/** A command that takes one action on one project. */
function simple(
  verb: string,
  description: string,
  outcome: string,
  work: (admin: AdminSocketClient, name: string, command: Command) => Promise<ProjectResponse>,
): Command {
  const command = new Command(verb).description(description).argument('<NAME>');
  return operatorAction(command, async (admin, name: string) => {
    const { project } = await work(admin, name, command);
    print(command, project, [`Project ${project.name} ${outcome}`]);
  });
}

function create(): Command {
  return simple('create', 'Create a project', 'created', (admin, name, command) => {
    const { server, label: labels } = command.opts<{ server?: string; label?: Labels }>();
    return admin.call('POST', 'admin/projects', { name, server, labels });
  })
    .option('--server <SERVER>', 'Create it on this Postgres server (default: the least loaded)')
    .addOption(labelOption('Create it on a server with this label (repeatable)'));
}

function list(): Command {
  const command = new Command('list').description('List all projects');
  return operatorAction(command, async (admin) => {
    const { projects } = await admin.call<ProjectsResponse>('GET', 'admin/projects');
    const { placements } = await admin.call<{ placements: ProjectLocation[] }>('GET', 'local/placements');
    const rows = projects.map((project) => ({ ...project, ...placements.find(({ id }) => id === project.id) }));
    print(
      command,
      rows,
      tableLines(
        ['NAME', 'STATUS', 'SIZE', 'QUOTA', 'ARCHIVE', 'SAVED', 'CREATED', 'SERVER', 'DATABASE'],
        rows.map(cellsOf),
      ),
    );
  });
}

type Listed = Project & Partial<ProjectLocation>;

const cellsOf = ({
  name,
  status,
  size_bytes: size,
  quota,
  created_at: created,
  database = '',
  server,
  folder,
  archive,
  saved_at: saved,
}: Listed) => [
  name,
  status,
  size === undefined ? '?' : roundedSize(size),
  quota,
  archive === 'failing' ? 'FAILING' : (archive ?? '-'),
  saved ?? '-',
  created,
  server,
  folder == null ? database : `${database} in postgres/projects/${folder}`,
];

function rename(): Command {
  const command = new Command('rename')
    .description('Rename a project; its tokens and data stay as they are')
    .argument('<NAME>')
    .argument('<NEWNAME>');
  return operatorAction(command, async (admin, name: string, newName: string) => {
    const { project } = await admin.call<ProjectResponse>('PUT', `${pathOf(name)}/name`, { name: newName });
    print(command, project, [`Project ${name} is now ${project.name}`]);
  });
}

function archive(): Command {
  const command = new Command('archive')
    .description("Archive a project's write-ahead log, so that a backup can be restored to any later time")
    .argument('<NAME>')
    .addArgument(new Argument('<on|off>').choices(['on', 'off']));
  return operatorAction(command, async (admin, name: string, state: string) => {
    const on = state === 'on';
    await admin.call('POST', 'local/archive', { project: name, on });
    print(command, { name, archive: on }, [`WAL archiving of project ${name} is ${state}`]);
  });
}

function repair(): Command {
  const command = new Command('repair')
    .description('Restore roles, passwords, the privileges that the service grants, and the schema; keeps all rows')
    .argument('[NAME]')
    .option('--all', 'Repair every project')
    .option('--reader-reads-all', 'Let the reader see everything again, even what the project has hidden from it')
    .option('--writer-writes-all', 'Give the writer all rights to its own objects again, even what it has revoked');
  return operatorOptions(command).action((name: string | undefined) => {
    const { all, ...repairs } = command.opts<RepairOptions & { all?: boolean }>();
    if ((name === undefined) === (all === undefined))
      throw new UsageError('Give either the name of a project or --all');
    return withAdminSocket(command, async (admin) => {
      if (name === undefined) return repairAll(command, admin, repairQuery(repairs));
      const { project, repaired } = await admin.call<RepairResponse>(
        'POST',
        `${pathOf(name)}/repair${repairQuery(repairs)}`,
      );
      const lines = [`Project ${project.name} repaired`, ...repaired.map((what) => `- ${printable(what)}`)];
      print(command, { ...project, repaired }, lines);
    });
  });
}

interface RepairOptions {
  readonly readerReadsAll?: boolean;
  readonly writerWritesAll?: boolean;
}

function repairQuery({ readerReadsAll, writerWritesAll }: RepairOptions): string {
  const changes = [
    ...(readerReadsAll ? ['reader_reads_all=true'] : []),
    ...(writerWritesAll ? ['writer_writes_all=true'] : []),
  ];
  return changes.length === 0 ? '' : `?${changes.join('&')}`;
}

/** The service repairs at most this many at once. */
const REPAIRS_AT_ONCE = 4;

/** If a project cannot be repaired, continues with the others and names it at the end. */
async function repairAll(command: Command, admin: AdminSocketClient, query: string): Promise<void> {
  const { projects } = await admin.call<ProjectsResponse>('GET', 'admin/projects');
  const ready = projects.filter(isReady);
  const repaired: { name: string; repaired: string[] }[] = [];
  const failed: { name: string; reason: string }[] = [];
  const waiting = ready.values();
  const repairs = async () => {
    for (const { name } of waiting) {
      try {
        const result = await admin.call<RepairResponse>('POST', `${pathOf(name)}/repair${query}`);
        repaired.push({ name, repaired: result.repaired });
      } catch (error) {
        failed.push({ name, reason: messageOf(error) });
      }
      warn(`${repaired.length + failed.length} of ${ready.length}: ${name}`);
    }
  };
  await Promise.all(Array.from({ length: REPAIRS_AT_ONCE }, repairs));
  const lines = repaired.flatMap((one) => one.repaired.map((what) => `- ${one.name}: ${printable(what)}`));
  print(command, { repaired, failed }, [`${counted(repaired.length, 'project')} repaired`, ...lines]);
  if (failed.length === 0) return;
  throw new Error(`Not repaired: ${failed.map(({ name, reason }) => `${name} (${reason})`).join(', ')}`);
}

function quota(): Command {
  const command = new Command('quota')
    .description('Set the disk quota of a project: a size such as 10GB, "default" or "none"')
    .argument('<NAME>')
    .argument('<SIZE>');
  return operatorAction(command, async (admin, name: string, size: string) => {
    const { project } = await admin.call<ProjectResponse>('PUT', `${pathOf(name)}/quota`, { quota: size });
    print(command, project, [`Project ${project.name} has the quota ${project.quota}`]);
  });
}

function ownSchemas(): Command {
  const command = new Command('own-schemas')
    .description('Allow or forbid a project to create schemas other than "data"; existing ones stay')
    .argument('<NAME>')
    .addArgument(new Argument('<on|off>').choices(['on', 'off']));
  return operatorAction(command, async (admin, name: string, state: string) => {
    const body = { own_schemas: state === 'on' };
    const { project } = await admin.call<ProjectResponse>('PUT', `${pathOf(name)}/own-schemas`, body);
    print(command, project, [`Project ${project.name}: schemas other than "data" are ${state}`]);
  });
}

function remove(): Command {
  const command = new Command('delete')
    .description('Delete a project with everything in it; this cannot be undone')
    .argument('<NAME>')
    .option('--yes', 'Do not ask for confirmation');
  return operatorOptions(command).action(async (name: string) => {
    if (command.opts<{ yes?: boolean }>().yes !== true) await confirm(name, `Deleting "${name}"`, 'project');
    await withAdminSocket(command, async (admin) => {
      const query = `confirm=${encodeURIComponent(name)}`;
      const { project } = await admin.call<ProjectResponse>('DELETE', `${pathOf(name)}?${query}`);
      print(command, project, [`Project ${project.name} deleted`]);
    });
  });
}
