/** The streaming replicas of a server, as options of `cdp server add` and `cdp server set`. */
import { resolve } from 'node:path';
import { type Command, Option } from 'commander';
import { CONSISTENCIES, type Consistency } from '../contract/servers.js';
import type { ChangeServerBody } from '../contract/wire/servers.js';
import { collect } from './remote/options.js';

export interface ReplicaOptions {
  replicaEnv?: string[];
  replicaFile?: string[];
  consistency?: Consistency;
}

export const replicaOptions = (command: Command): Command =>
  command
    .option('--replica-env <VARIABLE>', 'Read the URL of a streaming replica from this variable (repeatable)', collect)
    .option('--replica-file <PATH>', 'Read the URL of a streaming replica from this file (repeatable)', collect)
    .addOption(
      new Option(
        '--consistency <CONSISTENCY>',
        'Where free SQL reads that specify no consistency run: strong, on the primary; bounded, on a replica (default: strong)',
      ).choices(CONSISTENCIES),
    );

export function replicasOf({ replicaEnv = [], replicaFile = [], consistency }: ReplicaOptions): ChangeServerBody {
  const replicas = [...replicaEnv.map((name) => `env:${name}`), ...replicaFile.map((path) => `file:${resolve(path)}`)];
  return {
    ...(replicas.length === 0 ? {} : { replicas }),
    ...(consistency === undefined ? {} : { consistency }),
  };
}
