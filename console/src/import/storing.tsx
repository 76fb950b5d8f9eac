/** How to treat records whose key exists already, fields without a column, and records that the service refuses. */
import type { StoreOptions } from '../../../src/client/index.js';
import { SelectField } from '../parts/fields.js';
import type { Draft } from './draft.js';

const RESOLUTIONS = [
  ['merge', 'update it'],
  ['replace', 'replace it, with defaults elsewhere'],
  ['ignore', 'leave it as it is'],
] as const;

export function Storing({ draft }: { draft: Draft }) {
  const keys = draft.keys.value;
  const { onConflict, resolution, unchanged, unknown, onError } = draft.storing.value;
  const collectors = draft.collectors.value;
  const hasOthers = draft.choices.value.some(({ isTaken }) => !isTaken);
  const change = (by: StoreOptions) => (draft.wantedStoring.value = { ...draft.wantedStoring.value, ...by });
  /** @param value of the option; empty: the option is not sent */
  const choose = (option: 'unchanged' | 'unknown' | 'onError', value: string) => {
    const { [option]: _, ...others } = draft.wantedStoring.value;
    draft.wantedStoring.value = value === '' ? others : { ...others, [option]: value };
  };
  return (
    <div class="import-storing">
      {keys.length > 0 && (
        <SelectField
          label="Key"
          value={keyName(onConflict)}
          items={[
            ['', 'None: each record is a new row'],
            ...keys.map((key): [string, string] => [keyName(key), keyName(key)]),
          ]}
          onChange={(name) => change({ onConflict: keys.find((key) => keyName(key) === name) ?? [] })}
        />
      )}
      {onConflict !== undefined && (
        <SelectField
          label="If a row has that key"
          value={resolution ?? 'merge'}
          items={RESOLUTIONS}
          onChange={(value) => change({ resolution: value as (typeof RESOLUTIONS)[number][0] })}
        />
      )}
      {onConflict !== undefined && resolution !== 'ignore' && (
        <SelectField
          label="If it has all the values"
          value={unchanged ?? ''}
          items={[
            ['', 'write it again'],
            ['skip', 'leave it alone'],
          ]}
          onChange={(value) => choose('unchanged', value)}
        />
      )}
      {collectors.length > 0 && hasOthers && (
        <SelectField
          label="Fields that are not imported"
          value={unknown ?? ''}
          items={[
            ['', 'are left out'],
            ...collectors.map((column): [string, string] => [`into:${column}`, `go into the column ${column}`]),
          ]}
          onChange={(value) => choose('unknown', value)}
        />
      )}
      <SelectField
        label="Refused records"
        value={onError ?? ''}
        items={[
          ['', 'wait here to be corrected'],
          ['quarantine', 'go into the quarantine'],
        ]}
        onChange={(value) => choose('onError', value)}
      />
    </div>
  );
}

const keyName = (key: StoreOptions['onConflict']): string => [key ?? []].flat().join(', ');
