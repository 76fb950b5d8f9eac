/** The tokens that this browser keeps: each can be used and forgotten. */
import { forget, forgetAll, keptTokens } from '../kept-tokens.js';
import { IconButton } from './icon.js';

export const WHAT_KEEPING_MEANS =
  'It is stored in this browser (localStorage), not encrypted. Anyone who uses this browser profile can use it, until you forget it here, or it expires or is revoked.';

/** @param props.onEnter begins a session with a token; left out: they are only listed */
export function KeptTokens({ onEnter }: { onEnter?: (token: string) => void }) {
  const all = keptTokens.value;
  if (all.length === 0) return null;
  return (
    <section aria-labelledby="kept-title">
      <h2 id="kept-title">Kept in this browser</h2>
      <ul class="kept-tokens">
        {all.map(({ token, label }) => (
          <li key={token}>
            {onEnter === undefined ? (
              <span>{label}</span>
            ) : (
              <button type="button" class="link" onClick={() => onEnter(token)}>
                {label}
              </button>
            )}
            <IconButton icon="trash" label={`Forget ${label}`} title="Forget" onClick={() => forget(token)} />
          </li>
        ))}
      </ul>
      <button type="button" class="button is-quiet" onClick={forgetAll}>
        Forget all
      </button>
    </section>
  );
}
