// Says what is missing before a package is made, and puts the licence into it.
import { copyFileSync, existsSync } from "node:fs";

const root = new URL("../", import.meta.url);
if (!existsSync(new URL("src/generated/schema.ts", root))) {
  console.error("there is no generated code: run `npm run generate -- URL|FILE` first");
  process.exit(1);
}
if (!existsSync(new URL("LICENSE", root))) {
  copyFileSync(new URL("../../LICENSE", root), new URL("LICENSE", root));
}
