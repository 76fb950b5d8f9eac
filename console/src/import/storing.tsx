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
          onChange={(value) => {
            const { unchanged: _, ...others } = draft.wantedStoring.value;
            draft.wantedStoring.value = value === '' ? others : { ...others, unchanged: 'skip' };
          }}
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
          onChange={(value) => {
            const { unknown: _, ...others } = draft.wantedStoring.value;
            draft.wantedStoring.value = value === '' ? others : { ...others, unknown: value as `into:${string}` };
          }}
        />
      )}
      <SelectField
        label="Refused records"
        value={onError ?? ''}
        items={[
          ['', 'wait here to be corrected'],
          ['quarantine', 'go into the quarantine'],
        ]}
        onChange={(value) => {
          const { onError: _, ...others } = draft.wantedStoring.value;
          draft.wantedStoring.value = value === '' ? others : { ...others, onError: 'quarantine' };
        }}
      />
    </div>
  );
}

const keyName = (key: StoreOptions['onConflict']): string => [key ?? []].flat().join(', ');
