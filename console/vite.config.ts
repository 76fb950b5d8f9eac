/** The console's build: files with hashed names under /console/, and nothing that a strict policy would refuse. */
import { join } from 'node:path';
import { defineConfig } from 'vite';

export default defineConfig({
  root: import.meta.dirname,
  base: '/console/',
  // The package runs WebAssembly, which the page's content policy refuses.
  resolve: { alias: { hysnappy: join(import.meta.dirname, 'src/import/snappy.ts') } },
  // For work on the console: `npx vite -c console/vite.config.ts` next to a running service.
  server: { proxy: { '/api': 'http://127.0.0.1:8080' } },
  build: {
    outDir: '../dist/console',
    emptyOutDir: true,
    target: 'es2022',
    // No inline script and no data: URL, whatever their size.
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // On a busy machine it would explain where the time went, in the middle of `npm start`.
    rolldownOptions: { checks: { bundlerTimings: false } },
  },
});
