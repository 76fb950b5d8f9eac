/** Saves a chart as a file that does not depend on the page. It has the colors currently shown. */
import { offerFile } from '../results/download.js';

/** Pixels of the picture per pixel of the page. */
const SHARPNESS = 2;

export async function saveChart(svg: SVGSVGElement, title: string, format: 'svg' | 'png'): Promise<void> {
  const text = new Blob([standalone(svg, title)], { type: 'image/svg+xml' });
  offerFile(format === 'svg' ? text : await pictured(text, svg), `chart.${format}`);
}

function standalone(svg: SVGSVGElement, title: string): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const shown = svg.querySelectorAll('*');
  copy.querySelectorAll('*').forEach((element, i) => {
    const style = getComputedStyle(shown[i] ?? svg);
    for (const name of ['fill', 'stroke'] as const) {
      if (element.getAttribute(name)?.startsWith('var(')) element.setAttribute(name, style[name]);
    }
  });
  copy.removeAttribute('aria-hidden');
  const name = document.createElementNS(copy.namespaceURI, 'title');
  name.textContent = title;
  copy.prepend(name);
  return new XMLSerializer().serializeToString(copy);
}

async function pictured(text: Blob, { clientWidth, clientHeight }: SVGSVGElement): Promise<Blob> {
  const address = URL.createObjectURL(text);
  try {
    const image = new Image();
    image.src = address;
    await image.decode();
    const canvas = document.createElement('canvas');
    canvas.width = clientWidth * SHARPNESS;
    canvas.height = clientHeight * SHARPNESS;
    canvas.getContext('2d')?.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((resolve, reject) => {
      canvas.toBlob((blob) =>
        blob === null ? reject(new Error('The browser cannot make a PNG of it')) : resolve(blob),
      );
    });
  } finally {
    URL.revokeObjectURL(address);
  }
}
