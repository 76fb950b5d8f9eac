/** Shows an error and what to do about it, in terms of the screen. */
import { CdpError } from '../../../src/client/index.js';
import { FileError } from '../../../src/import/file-error.js';
import { inConsole } from './words.js';

export function Problem({ error }: { error: unknown }) {
  if (error === null) return null;
  const { message } = error instanceof Error ? error : new Error('The import failed');
  const hint = error instanceof FileError || error instanceof CdpError ? error.hint : undefined;
  const others = error instanceof CdpError ? error.errors.filter((place) => place.message !== message) : [];
  return (
    <div class="outcome-error" role="alert">
      <p>
        <strong>{inConsole(message)}</strong>
      </p>
      {others.length > 0 && (
        <ul>
          {others.map((place, i) => (
            <li key={i}>{place.message}</li>
          ))}
        </ul>
      )}
      {hint !== undefined && <p>{inConsole(hint)}</p>}
    </div>
  );
}
