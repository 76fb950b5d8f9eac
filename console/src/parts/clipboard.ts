/** Into the clipboard, over plain HTTP too, where browsers have no `navigator.clipboard`. */
export async function copyText(text: string): Promise<void> {
  const { clipboard } = navigator as { clipboard?: Clipboard };
  if (clipboard !== undefined) {
    try {
      return await clipboard.writeText(text);
    } catch {
      // Not allowed here; the older way may be.
    }
  }
  const set = (event: ClipboardEvent) => {
    event.clipboardData?.setData('text/plain', text);
    event.preventDefault();
  };
  document.addEventListener('copy', set, { once: true, capture: true });
  // Deprecated, and the only one there is without TLS.
  document.execCommand('copy');
  document.removeEventListener('copy', set, { capture: true });
}
