// Small images, made here: tar archives, manifests, configurations.
import { createHash } from 'node:crypto'
import { gzipSync } from 'node:zlib'
import { spawnSync } from 'node:child_process'

export const sha256 = (bytes) => 'sha256:' + createHash('sha256').update(bytes).digest('hex')
export const architecture = { x64: 'amd64', arm64: 'arm64' }[process.arch]

const types = { file: '0', link: '1', symlink: '2', directory: '5' }

function header({ name, type = 'file', mode = type === 'directory' ? 0o755 : 0o644, size = 0, target = '', uid = 0, gid = 0 }) {
  const h = Buffer.alloc(512)
  const number = (value, at, length) => h.write(value.toString(8).padStart(length - 1, '0') + '\0', at, 'latin1')
  h.write(name, 0, 100)
  number(mode, 100, 8)
  number(uid, 108, 8)
  number(gid, 116, 8)
  number(size, 124, 12)
  number(1700000000, 136, 12)
  h.write('        ', 148)
  h.write(types[type], 156)
  h.write(target, 157, 100)
  h.write('ustar\x0000', 257, 'latin1')
  h.write(h.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, '0') + '\0 ', 148, 'latin1')
  return h
}

/** Entries: {name, content} or {name, type, target, ...}. */
export function tar(entries) {
  const parts = []
  for (const entry of entries) {
    const content = Buffer.from(entry.content ?? '')
    parts.push(header({ ...entry, size: content.length }), content, Buffer.alloc((512 - (content.length % 512)) % 512))
  }
  return Buffer.concat([...parts, Buffer.alloc(1024)])
}

export function zstd(bytes) {
  const done = spawnSync('zstd', ['-q', '-c'], { input: bytes, maxBuffer: 1 << 30 })
  if (done.status !== 0) throw new Error(`zstd: ${done.error?.message ?? done.stderr}`)
  return done.stdout
}

const compressions = { gzip: gzipSync, zstd, none: (bytes) => bytes }
const layerTypes = {
  docker: { gzip: 'application/vnd.docker.image.rootfs.diff.tar.gzip', none: 'application/vnd.docker.image.rootfs.diff.tar' },
  oci: { gzip: 'application/vnd.oci.image.layer.v1.tar+gzip', zstd: 'application/vnd.oci.image.layer.v1.tar+zstd', none: 'application/vnd.oci.image.layer.v1.tar' },
}
export const manifestTypes = {
  docker: 'application/vnd.docker.distribution.manifest.v2+json',
  oci: 'application/vnd.oci.image.manifest.v1+json',
  list: 'application/vnd.docker.distribution.manifest.list.v2+json',
  index: 'application/vnd.oci.image.index.v1+json',
}

/** An image: blobs by digest, its manifest as bytes, and what an answer of the puller should say about it. */
export function makeImage({ layers, kind = 'docker', compression = 'gzip', config = {}, arch = architecture }) {
  const blobs = new Map()
  const add = (bytes) => { blobs.set(sha256(bytes), bytes); return { digest: sha256(bytes), size: bytes.length } }
  const made = layers.map((entries) => {
    const plain = Buffer.isBuffer(entries) ? entries : tar(entries)
    return { diff_id: sha256(plain), ...add(compressions[compression](plain)) }
  })
  const text = Buffer.from(JSON.stringify({ architecture: arch, os: 'linux', config, rootfs: { type: 'layers', diff_ids: made.map((l) => l.diff_id) }, history: [] }))
  const configType = kind === 'docker' ? 'application/vnd.docker.container.image.v1+json' : 'application/vnd.oci.image.config.v1+json'
  const manifest = {
    schemaVersion: 2, mediaType: manifestTypes[kind], config: { mediaType: configType, ...add(text) },
    layers: made.map(({ digest, size }) => ({ mediaType: layerTypes[kind][compression], digest, size })),
  }
  const bytes = Buffer.from(JSON.stringify(manifest))
  return {
    blobs, manifest, bytes, digest: sha256(bytes), type: manifestTypes[kind], arch, configText: text,
    layers: made.map(({ digest, diff_id, size }) => ({ digest, diff_id, bytes: size })),
  }
}

/** A manifest list (docker) or index (oci) of images. */
export function makeIndex(images, { kind = 'list', variants = [] } = {}) {
  const manifests = images.map((image, i) => ({
    mediaType: image.type, digest: image.digest, size: image.bytes.length,
    platform: { architecture: image.arch, os: 'linux', ...(variants[i] ? { variant: variants[i] } : {}) },
  }))
  const bytes = Buffer.from(JSON.stringify({ schemaVersion: 2, mediaType: manifestTypes[kind], manifests }))
  return { bytes, digest: sha256(bytes), type: manifestTypes[kind], images }
}

/** As `docker save` writes it. */
export function dockerArchive(image, tags) {
  const name = `${sha256(image.configText).slice(7)}.json`
  const layers = image.layers.map((layer, i) => ({ name: `${i}${'0'.repeat(63)}/layer.tar`, content: image.blobs.get(layer.digest) }))
  const manifest = [{ Config: name, RepoTags: tags, Layers: layers.map((l) => l.name) }]
  return tar([...layers, { name, content: image.configText }, { name: 'manifest.json', content: JSON.stringify(manifest) }])
}

/** An OCI layout as a tar archive. */
export function ociArchive(image, name) {
  const notes = name ? { annotations: { 'org.opencontainers.image.ref.name': name } } : {}
  const index = { schemaVersion: 2, manifests: [{ mediaType: image.type, digest: image.digest, size: image.bytes.length, ...notes }] }
  const blobs = [...image.blobs, [image.digest, image.bytes]]
  return tar([
    { name: 'oci-layout', content: '{"imageLayoutVersion":"1.0.0"}' },
    { name: 'index.json', content: JSON.stringify(index) },
    ...blobs.map(([digest, content]) => ({ name: `./blobs/sha256/${digest.slice(7)}`, content })),
  ])
}
