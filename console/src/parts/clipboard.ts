/** Copies text to the clipboard, even over plain HTTP, where browsers have no `navigator.clipboard`. */
import { say } from './announcements.js';

/** @param done the message of the toast if the copy succeeds */
export async function copyText(text: string, done: string): Promise<void> {
  const isCopied = (await copyByClipboard(text)) || copyByEvent(text);
  say(isCopied ? done : 'The browser did not allow the copy. Select the text and copy it yourself.');
}

async function copyByClipboard(text: string): Promise<boolean> {
  const { clipboard } = navigator as { clipboard?: Clipboard };
  if (clipboard === undefined) return false;
  return clipboard.writeText(text).then(
    () => true,
    // Not allowed here; the older API may be.
    () => false,
  );
}

function copyByEvent(text: string): boolean {
  const set = (event: ClipboardEvent) => {
    event.clipboardData?.setData('text/plain', text);
    event.preventDefault();
  };
  document.addEventListener('copy', set, { once: true, capture: true });
  // Deprecated, but the only API without TLS.
  const isCopied = document.execCommand('copy');
  document.removeEventListener('copy', set, { capture: true });
  return isCopied;
}
