/** Replaces nested objects by members of their record, named by their path: `address_city`. Values are not changed. */
import { FileError } from './file-error.js';
import { type JsonRecord, membersOf, requireFewFields } from './json-records.js';

/** @throws FileError if two paths give the same name, in one record or in two */
export async function* flattened(records: AsyncIterable<JsonRecord>, label: string): AsyncGenerator<JsonRecord, void> {
  /** By name. */
  const paths = new Map<string, string>();
  for await (const { line, text } of records) {
    const flat: string[] = [];
    const add = (members: readonly (readonly [string, string])[], before: readonly string[]): void => {
      for (const [member, value] of members) {
        const path = [...before, member];
        const nested = membersOf(value);
        if (nested !== undefined) {
          add(nested, path);
          continue;
        }
        const name = path.join('_');
        const shown = path.join('.');
        const existing = paths.get(name) ?? shown;
        if (existing !== shown) {
          throw new FileError(
            `${label}, line ${line}: --flatten would give ${existing} and ${shown} the same name, ${name}`,
            'Rename one of them in the file, or import it without --flatten',
          );
        }
        paths.set(name, shown);
        flat.push(`${JSON.stringify(name)}:${value}`);
      }
    };
    const members = membersOf(text);
    if (members !== undefined) add(members, []);
    requireFewFields(paths.size, `Line ${line}: the records up to here have`);
    yield { line, text: members === undefined ? text : `{${flat.join(',')}}` };
  }
}
