/** Into the clipboard, over plain HTTP too, where browsers have no `navigator.clipboard`. */
import { say } from './toast.js';

/** @param done what the toast says if it is there */
export async function copyText(text: string, done: string): Promise<void> {
  const isCopied = (await copyByClipboard(text)) || copyByEvent(text);
  say(isCopied ? done : 'The browser did not allow the copy. Select the text and copy it yourself.');
}

async function copyByClipboard(text: string): Promise<boolean> {
  const { clipboard } = navigator as { clipboard?: Clipboard };
  if (clipboard === undefined) return false;
  return clipboard.writeText(text).then(
    () => true,
    // Not allowed here; the older way may be.
    () => false,
  );
}

function copyByEvent(text: string): boolean {
  const set = (event: ClipboardEvent) => {
    event.clipboardData?.setData('text/plain', text);
    event.preventDefault();
  };
  document.addEventListener('copy', set, { once: true, capture: true });
  // Deprecated, and the only one there is without TLS.
  const isCopied = document.execCommand('copy');
  document.removeEventListener('copy', set, { capture: true });
  return isCopied;
}
