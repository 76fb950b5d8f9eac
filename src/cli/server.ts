/** `cdp server …`: add, list, check, change and remove the Postgres servers that projects live on. */
import { resolve } from 'node:path';
import { Command, Option } from 'commander';
import { parseQuota, roundedSize } from '../contract/disk-size.js';
import { CONSISTENCIES, type Consistency, SERVER_ENGINES, type ServerStatus } from '../contract/servers.js';
import type {
  AddServerBody,
  ChangeServerBody,
  CheckedServerResponse,
  ClearedServerResponse,
  RemovedServerResponse,
  Server,
  ServerResponse,
  ServersResponse,
} from '../contract/wire/servers.js';
import type { AdminSocketClient } from './admin-socket-client.js';
import {
  confirm,
  labelOption,
  type Labels,
  operatorOptions,
  operatorAction,
  withAdminSocket,
} from './operator-commands.js';
import { UsageError } from './exit.js';
import { countOf, findingLines } from './doctor.js';
import { collect } from './remote/remote-options.js';
import { tableLines } from './terminal/grid.js';
import { print, writeLines } from './terminal/output.js';

export function serverCommand(): Command {
  return new Command('server')
    .description('Manage the Postgres servers that projects live on')
    .addCommand(addCommand())
    .addCommand(listCommand())
    .addCommand(checkCommand())
    .addCommand(setCommand())
    .addCommand(
      status('drain', 'draining', 'Place no new projects on a server, and let cdp rebalance move its projects away'),
    )
    .addCommand(status('close', 'closed', 'Place no new projects on a server'))
    .addCommand(status('activate', 'active', 'Place new projects on a server again'))
    .addCommand(removeCommand());
}

const pathOf = (name: string): string => `admin/servers/${encodeURIComponent(name)}`;

interface BoundOptions extends ReplicaOptions {
  label?: Labels;
  weight?: string;
  maxProjects?: string;
  maxBytes?: string;
  maxConnections?: string;
}

interface UrlOptions {
  urlEnv?: string | undefined;
  urlFile?: string | undefined;
}

const ONE_PLACE = 'Give either --url-env or --url-file';

const referenceOf = ({ urlEnv, urlFile }: UrlOptions): string | undefined =>
  urlFile === undefined ? urlEnv && `env:${urlEnv}` : `file:${resolve(urlFile)}`;

interface AddOptions extends BoundOptions, UrlOptions {
  dedicated?: true;
  engine?: (typeof SERVER_ENGINES)[number];
}

/** Adds the options that `cdp server set` also has. */
const boundOptions = (command: Command, labels: string): Command =>
  replicaOptions(command)
    .addOption(labelOption(labels))
    .option('--weight <N>', 'Place N times as many projects on it as on a server of weight 1')
    .option('--max-projects <N>', 'Place at most N projects there; "none": no limit')
    .option(
      '--max-bytes <SIZE>',
      'Place no new projects once existing ones reach this total size, such as 500GB; "none": no limit',
    )
    .option(
      '--max-connections <N>',
      'Limit each instance\'s connections to this server\'s projects; "none" removes the limit',
    );

function addCommand(): Command {
  const command = new Command('add')
    .description('Check a Postgres server and add it; its URL is read from the variable or file, and never stored')
    .argument('<NAME>')
    .option('--url-env <VARIABLE>', "Read its URL from this variable of the service's environment")
    .option('--url-file <PATH>', 'Read its URL from this file');
  boundOptions(command, 'Give it a label (repeatable)')
    .option('--dedicated', 'Reserve it for a single project')
    .addOption(
      new Option('--engine <ENGINE>', 'Database that the server runs (default: postgres)').choices(SERVER_ENGINES),
    );
  return operatorOptions(command).action((name: string) => {
    const { urlEnv, urlFile, dedicated, engine, ...bounds } = command.opts<AddOptions>();
    const reference = referenceOf({ urlEnv, urlFile });
    if (reference === undefined || (urlEnv !== undefined && urlFile !== undefined)) throw new UsageError(ONE_PLACE);
    const body: AddServerBody = {
      name,
      url_reference: reference,
      ...(engine === undefined ? {} : { engine }),
      ...(dedicated === undefined ? {} : { tenancy: 'dedicated' as const }),
      ...boundsOf(bounds),
    };
    return withAdminSocket(command, async (admin) => {
      const { server, findings } = await admin.call<CheckedServerResponse>('POST', 'admin/servers', body);
      const wrong = findings.filter(({ health }) => health !== 'ok');
      const lines = [...findingLines(wrong), `Server ${server.name} added`];
      if (urlEnv !== undefined) lines.push(`Every instance of the service needs the variable ${urlEnv}`);
      print(command, { ...server, findings }, lines, writeLines);
    });
  });
}

function listCommand(): Command {
  const command = new Command('list').description('List the Postgres servers');
  return operatorAction(command, async (admin) => {
    const { servers } = await admin.call<ServersResponse>('GET', 'admin/servers');
    const header = ['NAME', 'STATUS', 'PROJECTS', 'WEIGHT', 'BOUNDS', 'LABELS', 'POSTGRES', 'SIZE', 'URL'];
    print(command, servers, tableLines(header, servers.map(cellsOf)));
  });
}

const cellsOf = (server: Server): string[] => {
  const { name, engine, tenancy, labels, weight, status: state, projects, facts, url_reference: reference } = server;
  const { size_bytes: size } = server;
  return [
    name,
    state,
    String(projects),
    String(weight),
    [...(tenancy === 'dedicated' ? ['one project'] : []), ...boundTexts(server)].join(', ') || '-',
    Object.entries(labels)
      .sort()
      .map(([key, value]) => `${key}=${value}`)
      .join(' ') || '-',
    (engine === 'citus' ? 'Citus on ' : '') + (facts === null ? 'not checked' : (facts.version.split(' ')[0] ?? '')),
    size === undefined ? '?' : roundedSize(size),
    reference ?? '-',
  ];
};

const boundTexts = ({ max_projects: projects, max_bytes: bytes, max_connections: connections }: Server): string[] => [
  ...(projects === null ? [] : [`${projects} projects`]),
  ...(bytes === null ? [] : [roundedSize(bytes)]),
  ...(connections === null ? [] : [`${connections} connections`]),
];

function checkCommand(): Command {
  const command = new Command('check')
    .description('Check one server or all: privileges, version, clock, latency, connections, settings, leftovers')
    .argument('[NAME]')
    .option('--clear', 'Remove databases, roles, slots and publications that were left behind; this cannot be undone')
    .option('--yes', 'Do not ask for confirmation');
  return operatorOptions(command).action(async (name: string | undefined) => {
    const { clear, yes } = command.opts<{ clear?: boolean; yes?: boolean }>();
    if (clear === true && name === undefined) throw new UsageError('--clear takes the name of one server');
    if (clear === true && yes !== true)
      await confirm(name ?? '', `Removing leftovers from the server "${name}"`, 'server');
    await withAdminSocket(command, async (admin) => {
      if (clear === true && name !== undefined) return showCleared(command, admin, name);
      const results: CheckedServerResponse[] = [];
      for (const one of name === undefined ? await namesOf(admin) : [name]) {
        results.push(await admin.call<CheckedServerResponse>('POST', `${pathOf(one)}/check`));
      }
      const lines = results.flatMap(({ server, findings }) => [`Server ${server.name}`, ...findingLines(findings)]);
      const rows = results.map(({ server, findings }) => ({ ...server, findings }));
      print(command, rows, lines, writeLines);
      if (results.some(({ findings }) => countOf(findings, 'problem') > 0)) process.exitCode = 1;
    });
  });
}

async function showCleared(command: Command, admin: AdminSocketClient, name: string): Promise<void> {
  const { removed, kept } = await admin.call<ClearedServerResponse>('POST', `${pathOf(name)}/clear`);
  const lines = [
    ...removed.map((what) => `Removed: ${what}`),
    ...kept.map(({ what, reason }) => `Not removed: ${what} (${reason})`),
  ];
  print(command, { removed, kept }, lines.length === 0 ? [`Nothing was left on ${name}`] : lines);
  if (kept.length > 0) process.exitCode = 1;
}

const namesOf = async (admin: AdminSocketClient): Promise<string[]> =>
  (await admin.call<ServersResponse>('GET', 'admin/servers')).servers.map(({ name }) => name);

function setCommand(): Command {
  const command = new Command('set')
    .description('Change the labels, weight, limits, replicas or address of a server; its projects stay where they are')
    .argument('<NAME>')
    .option('--url-env <VARIABLE>', "Read its URL from this variable of the service's environment from now on")
    .option('--url-file <PATH>', 'Read its URL from this file from now on');
  boundOptions(command, 'Replace its labels; repeat for more')
    .option('--no-labels', 'Remove its labels')
    .option('--no-replicas', 'Stop reading from replicas');
  return operatorOptions(command).action((name: string) => {
    const options = command.opts<BoundOptions & UrlOptions & { labels: boolean; replicas: boolean }>();
    if (options.urlEnv !== undefined && options.urlFile !== undefined) throw new UsageError(ONE_PLACE);
    const reference = referenceOf(options);
    const change = {
      ...(reference === undefined ? {} : { url_reference: reference }),
      ...boundsOf(options),
      ...(options.labels ? {} : { labels: {} }),
      ...(options.replicas ? {} : { replicas: [] }),
    };
    if (Object.keys(change).length === 0) throw new UsageError('Specify a change, such as --weight 2');
    return apply(command, name, change, 'changed');
  });
}

const status = (verb: string, to: ServerStatus, description: string): Command => {
  const command = new Command(verb).description(description).argument('<NAME>');
  return operatorOptions(command).action((name: string) => apply(command, name, { status: to }, to));
};

const apply = (command: Command, name: string, change: ChangeServerBody, outcome: string): Promise<void> =>
  withAdminSocket(command, async (admin) => {
    const { server } = await admin.call<ServerResponse>('PUT', pathOf(name), change);
    print(command, server, [`Server ${server.name} ${outcome}`]);
  });

function removeCommand(): Command {
  const command = new Command('remove')
    .description('Remove a server that has no projects; the server itself is not changed')
    .argument('<NAME>')
    .option('--lost', 'The server is permanently lost: also delete its projects. Cannot be undone')
    .option('--yes', 'Do not ask for confirmation');
  return operatorOptions(command).action(async (name: string) => {
    const { lost, yes } = command.opts<{ lost?: boolean; yes?: boolean }>();
    if (lost === true && yes !== true) await confirm(name, `Deleting all projects of the server "${name}"`, 'server');
    await withAdminSocket(command, async (admin) => {
      const query = lost === true ? `?lost=${encodeURIComponent(name)}` : '';
      const { server, deleted_projects: deleted } = await admin.call<RemovedServerResponse>(
        'DELETE',
        `${pathOf(name)}${query}`,
      );
      print(command, { ...server, deleted_projects: deleted }, [
        ...deleted.map((project) => `Project ${project} deleted`),
        `Server ${server.name} removed`,
      ]);
    });
  });
}

/** @throws UsageError naming the option */
function boundsOf(options: BoundOptions): ChangeServerBody {
  const { label, weight, maxProjects, maxBytes, maxConnections } = options;
  return {
    ...replicasOf(options),
    ...(label === undefined ? {} : { labels: label }),
    ...(weight === undefined ? {} : { weight: numberOf('--weight', weight) }),
    ...(maxProjects === undefined ? {} : { max_projects: boundOf('--max-projects', maxProjects, numberOf) }),
    ...(maxBytes === undefined ? {} : { max_bytes: boundOf('--max-bytes', maxBytes, bytesOf) }),
    ...(maxConnections === undefined
      ? {}
      : { max_connections: boundOf('--max-connections', maxConnections, numberOf) }),
  };
}

type Read = (option: string, text: string) => number;

const boundOf = (option: string, text: string, read: Read): number | null =>
  text === 'none' ? null : read(option, text);

const numberOf: Read = (option, text) => {
  if (/^\d{1,10}(\.\d{1,4})?$/.test(text)) return Number(text);
  throw new UsageError(`${option} takes a number`);
};

const bytesOf: Read = (option, text) => {
  try {
    return parseQuota(text);
  } catch (error) {
    throw new UsageError(`${option} ${(error as Error).message}`);
  }
};

// The streaming replicas of a server, as options of `cdp server add` and `cdp server set`.

interface ReplicaOptions {
  replicaEnv?: string[];
  replicaFile?: string[];
  consistency?: Consistency;
}

const replicaOptions = (command: Command): Command =>
  command
    .option('--replica-env <VARIABLE>', 'Read the URL of a streaming replica from this variable (repeatable)', collect)
    .option('--replica-file <PATH>', 'Read the URL of a streaming replica from this file (repeatable)', collect)
    .addOption(
      new Option(
        '--consistency <CONSISTENCY>',
        'Where free SQL reads that specify no consistency run: strong, on the primary; bounded, on a replica (default: strong)',
      ).choices(CONSISTENCIES),
    );

function replicasOf({ replicaEnv = [], replicaFile = [], consistency }: ReplicaOptions): ChangeServerBody {
  const replicas = [...replicaEnv.map((name) => `env:${name}`), ...replicaFile.map((path) => `file:${resolve(path)}`)];
  return {
    ...(replicas.length === 0 ? {} : { replicas }),
    ...(consistency === undefined ? {} : { consistency }),
  };
}
