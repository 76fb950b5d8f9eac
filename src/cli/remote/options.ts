/** Options that several commands take, and how their values are read. */
import { type Command, InvalidArgumentError } from 'commander';
import { ENVIRONMENT } from './connection.js';

export const remoteOptions = (command: Command): Command =>
  command.option(
    '--profile <NAME>',
    `Profile of cdp login (default: ${ENVIRONMENT.profile}, or ${ENVIRONMENT.url} and ${ENVIRONMENT.token}, else that of cdp use)`,
  );

/** An option that can be given several times. */
export const collect = (value: string, values: unknown[] = []): unknown[] => [...values, value];

export function whole(value: string): number {
  if (!/^[1-9]\d{0,8}$/.test(value)) throw new InvalidArgumentError('Expected a whole number from 1.');
  return Number(value);
}
