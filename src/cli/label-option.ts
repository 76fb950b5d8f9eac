/** The option `--label k=v`, once for each label. */
import { Option } from 'commander';
import { UsageError } from './exit.js';

export type Labels = Readonly<Record<string, string>>;

export const labelOption = (description: string): Option =>
  new Option('--label <KEY=VALUE>', description).argParser((text: string, labels: Labels = {}): Labels => {
    const [, key, value] = /^([^=]+)=(.+)$/.exec(text) ?? [];
    if (key === undefined || value === undefined) throw new UsageError(`--label takes KEY=VALUE, not ${text}`);
    return { ...labels, [key]: value };
  });
