/** The form that makes or changes a schedule. */
import { useSignal } from '@preact/signals';
import { isSavedName, SAVED_NAME_IN_WORDS } from '../../../src/contract/names.js';
import { LIMITS } from '../../../src/contract/limits.js';
import type { Schedule, ScheduleBody, ScheduleResponse } from '../../../src/contract/wire/schedules.js';
import { ActionForm } from '../parts/action-form.js';
import { Field, SelectField, TextField } from '../parts/fields.js';

interface FormProps {
  /** The one to change; null: a new one. */
  schedule: Schedule | null;
  onClose: () => void;
  onDone: (schedule: Schedule) => void;
}

const KINDS = [
  ['cron', 'At times of a pattern'],
  ['every', 'At an interval'],
] as const;

const MISSED = [
  ['run_once', 'Run once for all of them'],
  ['skip', 'Wait for the next time'],
] as const;

export function ScheduleForm({ schedule, onClose, onDone }: FormProps) {
  const name = useSignal(schedule?.name ?? '');
  const sql = useSignal(schedule?.sql ?? '');
  const kind = useSignal<'cron' | 'every'>(schedule?.every == null ? 'cron' : 'every');
  const cron = useSignal(schedule?.cron ?? '0 3 * * *');
  const every = useSignal(schedule?.every ?? '1h');
  const zone = useSignal(schedule?.time_zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone);
  const seconds = useSignal(String((schedule?.timeout_ms ?? LIMITS.scheduleTimeoutMsDefault) / 1_000));
  const role = useSignal(schedule?.role ?? '');
  const missed = useSignal(schedule?.missed ?? 'run_once');
  const isName = isSavedName(name.value);
  const isCron = kind.value === 'cron';
  const body: ScheduleBody = {
    sql: sql.value,
    ...(isCron ? { cron: cron.value, time_zone: zone.value } : { every: every.value }),
    timeout_ms: Math.round(Number(seconds.value) * 1_000),
    missed: missed.value,
    ...(role.value === '' ? {} : { role: role.value }),
  };
  const request = { method: 'PUT', path: `/api/cdp/schedules/${name.value}`, body } as const;
  return (
    <ActionForm<ScheduleResponse>
      title={schedule === null ? 'New schedule' : `Change ${schedule.name}`}
      action="Save"
      done={({ schedule: { name: saved } }) => `Schedule ${saved} saved`}
      request={isName && sql.value.trim() !== '' ? request : null}
      onClose={onClose}
      onDone={({ schedule: saved }) => onDone(saved)}
    >
      {schedule === null && (
        <>
          <TextField
            label="Name"
            placeholder="retention"
            text={name}
            aria-invalid={name.value !== '' && !isName}
            aria-describedby="name-help"
          />
          <p id="name-help" class="quiet">
            {SAVED_NAME_IN_WORDS}.
          </p>
        </>
      )}
      <Field label="SQL">
        <textarea
          class="mono"
          rows={5}
          spellcheck={false}
          placeholder="DELETE FROM events WHERE received_at < now() - interval '90 days'"
          value={sql.value}
          onInput={(event) => (sql.value = event.currentTarget.value)}
        />
      </Field>
      <SelectField
        label="When"
        value={kind.value}
        items={KINDS}
        onChange={(chosen) => (kind.value = chosen as 'cron' | 'every')}
      />
      {isCron ? (
        <>
          <TextField label="Minute, hour, day of the month, month, day of the week" text={cron} />
          <TextField label="Time zone" text={zone} />
        </>
      ) : (
        <TextField label="Interval, such as 15m, 6h or 1d" text={every} />
      )}
      <TextField label="Time limit of a run, in seconds" text={seconds} inputMode="numeric" />
      <TextField label="Role as which it runs; empty: the writer" text={role} />
      <SelectField
        label="Times that pass while no service runs"
        value={missed.value}
        items={MISSED}
        onChange={(chosen) => (missed.value = chosen as Schedule['missed'])}
      />
    </ActionForm>
  );
}
