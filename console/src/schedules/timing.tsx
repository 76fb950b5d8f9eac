/** The fields of the form of a schedule that a segment has, too. */
import { type Signal, useSignal } from '@preact/signals';
import { CdpError } from '../../../src/client/index.js';
import { LIMITS } from '../../../src/contract/limits.js';
import { isSavedName, SAVED_NAME_IN_WORDS } from '../../../src/contract/names.js';
import type { Schedule, ScheduleBody } from '../../../src/contract/wire/schedules.js';
import { type ApiRequest, send } from '../parts/api-request.js';
import { Field, SelectField, TextField } from '../parts/fields.js';

/** A schedule or a segment. */
export type Timed = Omit<Schedule, 'role'>;

const KINDS = [
  ['cron', 'At times of a pattern'],
  ['every', 'At an interval'],
] as const;

const MISSED = [
  ['run_once', 'Run once for all of them'],
  ['skip', 'Wait for the next time'],
] as const;

type Typed = ReturnType<typeof useTimed>;

/** @param of null: a new one @param every what a new one has; null: it has a pattern */
export function useTimed(of: Timed | null, every: string | null) {
  return {
    name: useSignal(of?.name ?? ''),
    sql: useSignal(of?.sql ?? ''),
    kind: useSignal<'cron' | 'every'>((of === null ? every : of.every) === null ? 'cron' : 'every'),
    cron: useSignal(of?.cron ?? '0 3 * * *'),
    every: useSignal(of?.every ?? every ?? '1h'),
    zone: useSignal(of?.time_zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone),
    seconds: useSignal(String((of?.timeout_ms ?? LIMITS.scheduleTimeoutMsDefault) / 1_000)),
    missed: useSignal(of?.missed ?? 'run_once'),
  };
}

/** null: the form is incomplete. */
export const bodyOf = ({ name, sql, kind, cron, every, zone, seconds, missed }: Typed): ScheduleBody | null =>
  isSavedName(name.value) && sql.value.trim() !== ''
    ? {
        sql: sql.value,
        ...(kind.value === 'cron' ? { cron: cron.value, time_zone: zone.value } : { every: every.value }),
        timeout_ms: Math.round(Number(seconds.value) * 1_000),
        missed: missed.value,
      }
    : null;

/** Saves one, unless it is new and its name is in use: PUT would replace that one. */
export async function saveUnlessInUse<Response>(
  request: ApiRequest | null,
  { name, isNew, list }: { name: string; isNew: boolean; list: () => Promise<readonly { readonly name: string }[]> },
): Promise<Response> {
  if (isNew && (await list()).some((one) => one.name === name))
    throw new CdpError('invalid_name', `"${name}" is in use; open it to change it`);
  if (request === null) throw new Error('The form is incomplete');
  return send<Response>(request);
}

export function NameField({ name, example }: { name: Signal<string>; example: string }) {
  return (
    <>
      <TextField
        label="Name"
        placeholder={example}
        text={name}
        aria-invalid={name.value !== '' && !isSavedName(name.value)}
        aria-describedby="name-help"
      />
      <p id="name-help" class="quiet">
        {SAVED_NAME_IN_WORDS}.
      </p>
    </>
  );
}

export const SqlField = ({ sql, example }: { sql: Signal<string>; example: string }) => (
  <Field label="SQL">
    <textarea
      class="mono"
      rows={5}
      spellcheck={false}
      placeholder={example}
      value={sql.value}
      onInput={(event) => (sql.value = event.currentTarget.value)}
    />
  </Field>
);

export const WhenFields = ({ of: { kind, cron, every, zone, seconds } }: { of: Typed }) => (
  <>
    <SelectField
      label="When"
      value={kind.value}
      items={KINDS}
      onChange={(chosen) => (kind.value = chosen as 'cron' | 'every')}
    />
    {kind.value === 'cron' ? (
      <>
        <TextField label="Minute, hour, day of the month, month, day of the week" text={cron} />
        <TextField label="Time zone" text={zone} />
      </>
    ) : (
      <TextField label="Interval, such as 15m, 6h or 1d" text={every} />
    )}
    <TextField label="Time limit of a run, in seconds" text={seconds} inputMode="numeric" />
  </>
);

export const MissedField = ({ missed }: { missed: Signal<Timed['missed']> }) => (
  <SelectField
    label="Times that pass while no service runs"
    value={missed.value}
    items={MISSED}
    onChange={(chosen) => (missed.value = chosen as Timed['missed'])}
  />
);
