/** What becomes of records whose key a row has already, and of those that the service refuses. */
import type { StoreOptions } from '../../../src/client/index.js';
import type { Draft } from './draft.js';

const RESOLUTIONS = [
  ['merge', 'update it'],
  ['replace', 'replace it, with defaults elsewhere'],
  ['ignore', 'leave it as it is'],
] as const;

export function Storing({ draft }: { draft: Draft }) {
  const keys = draft.keys.value;
  const { onConflict, resolution, onError } = draft.storing.value;
  const change = (by: StoreOptions) => (draft.wantedStoring.value = { ...draft.wantedStoring.value, ...by });
  return (
    <div class="import-storing">
      {keys.length > 0 && (
        <label class="field">
          <span class="field-label">Key</span>
          <select
            value={keyName(onConflict)}
            onChange={({ currentTarget: { selectedIndex } }) => change({ onConflict: keys[selectedIndex - 1] ?? [] })}
          >
            <option value="">None: each record is a new row</option>
            {keys.map((key) => (
              <option key={keyName(key)} value={keyName(key)}>
                {keyName(key)}
              </option>
            ))}
          </select>
        </label>
      )}
      {onConflict !== undefined && (
        <label class="field">
          <span class="field-label">If a row has that key</span>
          <select
            value={resolution}
            onChange={({ currentTarget: { selectedIndex } }) => {
              const [chosen] = RESOLUTIONS[selectedIndex] ?? RESOLUTIONS[0];
              change({ resolution: chosen });
            }}
          >
            {RESOLUTIONS.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        </label>
      )}
      <label class="field">
        <span class="field-label">Refused records</span>
        <select
          value={onError ?? ''}
          onChange={({ currentTarget: { value } }) => {
            const { onError: _, ...others } = draft.wantedStoring.value;
            draft.wantedStoring.value = value === '' ? others : { ...others, onError: 'quarantine' };
          }}
        >
          <option value="">wait here to be corrected</option>
          <option value="quarantine">go into the quarantine</option>
        </select>
      </label>
    </div>
  );
}

const keyName = (key: StoreOptions['onConflict']): string => [key ?? []].flat().join(', ');
