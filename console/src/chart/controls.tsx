/** Controls for a chart: its kind, and the columns for its axes and colors. */
import type { Result } from '../results/result.js';
import { type ChartChoice, KINDS, namedColumns, SERIES_AT_MOST, valueColumns } from './choice.js';

interface ControlsProps {
  readonly result: Result;
  readonly choice: ChartChoice;
  readonly onChoose: (choice: ChartChoice) => void;
}

const KIND_NAMES = { line: 'Line', bar: 'Bar', point: 'Points' } as const;

export function Controls({ result, choice, onChoose }: ControlsProps) {
  const change = (part: Partial<ChartChoice>) => onChoose({ ...choice, ...part });
  const names = namedColumns(result).map(({ name }) => name);
  const values = valueColumns(result).map(({ name }) => name);
  const free = values.filter((name) => !choice.y.includes(name));
  return (
    <div class="chart-controls" role="group" aria-label="Chart">
      <div class="segments" role="group" aria-label="Kind">
        {KINDS.map((kind) => (
          <button key={kind} type="button" aria-pressed={choice.kind === kind} onClick={() => change({ kind })}>
            {KIND_NAMES[kind]}
          </button>
        ))}
      </div>
      <Pick label="X" value={choice.x} names={names} none="row number" onPick={(x) => change({ x })} />
      {choice.y.map((chosen, i) => (
        <Pick
          key={chosen}
          label={i === 0 ? 'Y' : `Y ${i + 1}`}
          value={chosen}
          names={values.filter((name) => name === chosen || free.includes(name))}
          none={choice.y.length > 1 ? 'none' : undefined}
          onPick={(picked) => change({ y: choice.y.flatMap((name) => (name !== chosen ? name : (picked ?? []))) })}
        />
      ))}
      {free.length > 0 && choice.y.length < SERIES_AT_MOST && (
        <Pick
          label={`Y ${choice.y.length + 1}`}
          value={null}
          names={free}
          none="add …"
          onPick={(picked) => change({ y: [...choice.y, ...(picked === null ? [] : [picked])] })}
        />
      )}
      <Pick label="Color" value={choice.series} names={names} none="none" onPick={(series) => change({ series })} />
    </div>
  );
}

interface PickProps {
  readonly label: string;
  readonly value: string | null;
  readonly names: readonly string[];
  /** The label for no column; undefined if a column is required. */
  readonly none: string | undefined;
  readonly onPick: (name: string | null) => void;
}

/** Identifies options by index, because a column may have any name. */
const Pick = ({ label, value, names, none, onPick }: PickProps) => (
  <label class="chart-pick">
    <span class="quiet">{label}</span>
    <select
      value={value === null ? '' : String(names.indexOf(value))}
      onChange={({ currentTarget }) =>
        onPick(currentTarget.value === '' ? null : (names[Number(currentTarget.value)] ?? null))
      }
    >
      {none !== undefined && <option value="">{none}</option>}
      {names.map((name, i) => (
        <option key={name} value={String(i)}>
          {name}
        </option>
      ))}
    </select>
  </label>
);
