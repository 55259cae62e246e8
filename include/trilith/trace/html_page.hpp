// The page around a timeline's data: what html.hpp fills in. %TITLE%, %FIGURES% and %DATA% stand for the
// timeline.
#pragma once

namespace trilith::inline v0::trace::detail {

inline constexpr const char* html_page = R"page(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>%TITLE%</title>
<style>
  body { margin: 16px; font: 14px/1.4 system-ui, sans-serif; color: #101418; background: #fff; }
  h1 { font-size: 18px; margin: 0; }
  p { margin: 4px 0; }
  #legend span { display: inline-flex; align-items: center; margin-right: 16px; }
  #legend canvas { margin-right: 6px; }
  #bar { position: sticky; top: 0; padding: 6px 0; background: #fff; z-index: 1; }
  button { font: inherit; min-width: 32px; }
  #picture { display: block; width: 100%; cursor: grab; touch-action: pan-y; }
  #picture:focus-visible { outline: 2px solid #5b95f5; }
  #note { position: fixed; display: none; pointer-events: none; white-space: pre-line; z-index: 2; max-width: 420px;
          padding: 6px 9px; border-radius: 4px; background: #101418; color: #fff; font-size: 13px; }
</style>
</head>
<body>
<h1>%TITLE%</h1>
<p>%FIGURES%</p>
<p id="legend"></p>
<div id="bar">
  <button id="in" title="zoom in">+</button> <button id="out" title="zoom out">&minus;</button>
  <button id="fit">fit</button> <button id="read">legible</button>
  &ensp;Ctrl + wheel zooms, dragging moves; keys: + &minus; &larr; &rarr; 0. Point at a block to see what it is.
</div>
<canvas id="picture" tabindex="0"></canvas>
<div id="note"></div>
<script type="application/json" id="data">%DATA%</script>
<script>
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const canvas = document.getElementById('picture');
const note = document.getElementById('note');
const g = canvas.getContext('2d');
const margin = 70, right = 64, row = 32, level = 34, gap = 44, font = '11px ui-monospace, Menlo, Consolas, monospace';
const ranks = data.lanes.length, levelsTop = ranks * row + gap, height = levelsTop + ranks * level + 24;
let width = 0, from = 0, to = data.makespan, pointed = null, drag = null;

const plot = () => Math.max(50, width - margin - right);
const x = time => margin + (time - from) / (to - from) * plot();
const time = px => from + (px - margin) / plot() * (to - from);

// Chunks but the first are hatched in the colour of the text.
function hatched(paint, kind) {
  const tile = document.createElement('canvas');
  tile.width = tile.height = 7;
  const t = tile.getContext('2d');
  t.strokeStyle = paint.ink;
  t.globalAlpha = 0.3;
  t.lineWidth = 1.4;
  t.beginPath();
  if (kind & 1) { t.moveTo(-1, 1); t.lineTo(1, -1); t.moveTo(0, 7); t.lineTo(7, 0); t.moveTo(6, 8); t.lineTo(8, 6); }
  if (kind & 2) { t.moveTo(6, -1); t.lineTo(8, 1); t.moveTo(0, 0); t.lineTo(7, 7); t.moveTo(-1, 6); t.lineTo(1, 8); }
  t.stroke();
  return tile;
}
for (const paint of Object.values(data.paints)) paint.hatch = [null, 1, 2, 3].map(kind => kind && hatched(paint, kind));
const hatch = part => data.paints[part.pass].hatch[part.chunk % 4];

function swatch(c, part, left, up, w, h) {
  c.fillStyle = data.paints[part.pass].fill;
  c.fillRect(left, up, w, h);
  if (!hatch(part)) return;
  c.fillStyle = c.createPattern(hatch(part), 'repeat');
  c.fillRect(left, up, w, h);
}

function drawBlock(b, y) {
  const left = x(b.start), w = x(b.end) - left, inner = Math.max(w - 1, Math.min(w, 0.7));
  const h = (row - 4) / b.parts.length;
  b.parts.forEach((part, i) => {
    swatch(g, part, left, y + i * h, inner, h);
    const text = [part.label, part.microbatch].find(t => g.measureText(t).width + 4 <= inner);
    if (text === undefined) return;
    const paint = data.paints[part.pass], middle = y + (i + 0.5) * h + 0.5;
    g.textAlign = 'center';
    if (hatch(part)) {  // keeps hatching away from the letters
      g.strokeStyle = paint.fill;
      g.lineWidth = 3.5;
      g.lineJoin = 'round';
      g.strokeText(text, left + inner / 2, middle);
    }
    g.fillStyle = paint.ink;
    g.fillText(text, left + inner / 2, middle);
  });
  if (b.parts.length > 1) {
    g.strokeStyle = '#101418';
    g.lineWidth = 1.4;
    g.strokeRect(left + 0.5, y + 0.5, Math.max(inner - 1, 0.5), row - 5);
  }
}

// The first block that ends after `when`.
function firstAfter(blocks, when) {
  let low = 0, high = blocks.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (blocks[middle].end > when) high = middle; else low = middle + 1;
  }
  return low;
}

function axis(y) {
  let step = 1;
  for (let i = 0; step / (to - from) * plot() < 60; ++i) step = i % 3 === 1 ? step / 2 * 5 : step * 2;
  g.textAlign = 'center';
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    g.fillStyle = '#e3e6e9';
    g.fillRect(x(t), 0, 1, y);
    g.fillRect(x(t), y + 20, 1, ranks * level + 20);
    g.fillStyle = '#4a5258';
    g.fillText(t, x(t), y + 11);
  }
}

function drawLevels(lane, rank) {
  const base = levelsTop + (rank + 1) * level - 4, unit = (level - 10) / Math.max(1, ...data.lanes.map(l => l.peak));
  g.fillStyle = '#b9a3d6';
  lane.levels.forEach(([start, count], i) => {
    const end = i + 1 < lane.levels.length ? lane.levels[i + 1][0] : data.makespan;
    if (end < from || start > to || count === 0) return;
    g.fillRect(x(start), base - count * unit, x(end) - x(start) + 0.3, count * unit);
  });
  g.fillStyle = '#c8cdd2';
  g.fillRect(margin, base, plot(), 1);
}

function arrow(a, b) {
  g.strokeStyle = g.fillStyle = '#c22f2f';
  g.lineWidth = 1.6;
  g.beginPath();
  g.moveTo(...a);
  g.lineTo(...b);
  g.stroke();
  const turn = Math.atan2(b[1] - a[1], b[0] - a[0]);
  g.beginPath();
  g.moveTo(...b);
  for (const side of [2.7, -2.7]) g.lineTo(b[0] + 9 * Math.cos(turn + side), b[1] + 9 * Math.sin(turn + side));
  g.fill();
}

function draw() {
  const sharp = window.devicePixelRatio || 1;
  width = canvas.clientWidth;
  canvas.width = Math.round(width * sharp);
  canvas.height = Math.round(height * sharp);
  canvas.style.height = height + 'px';
  g.setTransform(sharp, 0, 0, sharp, 0, 0);
  g.font = font;
  g.textBaseline = 'middle';
  g.clearRect(0, 0, width, height);
  g.save();
  g.beginPath();
  g.rect(margin - 24, 0, plot() + 48, height);
  g.clip();
  axis(ranks * row);
  g.restore();
  g.save();
  g.beginPath();
  g.rect(margin, 0, plot(), height);
  g.clip();
  data.lanes.forEach((lane, rank) => {
    for (let i = firstAfter(lane.blocks, from); i < lane.blocks.length && lane.blocks[i].start < to; ++i) {
      drawBlock(lane.blocks[i], rank * row + 2);
    }
    drawLevels(lane, rank);
  });
  if (pointed) {
    const b = pointed.block;
    g.strokeStyle = '#c22f2f';
    g.lineWidth = 2;
    g.strokeRect(x(b.start), pointed.rank * row + 2, x(b.end) - x(b.start), row - 4);
    if (b.from) {
      const [rank, i] = b.from;
      arrow([x(data.lanes[rank].blocks[i].end), rank * row + row / 2], [x(b.start), pointed.rank * row + row / 2]);
    }
  }
  g.restore();
  g.fillStyle = '#101418';
  data.lanes.forEach((lane, rank) => {
    g.textAlign = 'right';
    g.fillText('rank ' + rank, margin - 8, rank * row + row / 2);
    g.fillText('rank ' + rank, margin - 8, levelsTop + (rank + 0.5) * level);
    g.textAlign = 'left';
    g.fillText('peak ' + lane.peak, width - right + 6, levelsTop + (rank + 0.5) * level);
  });
  g.fillText('microbatches in flight' + (data.chunks > 1 ? ', counted per chunk' : ''), margin, levelsTop - 12);
}

function view(start, length) {
  length = Math.min(data.makespan, Math.max(length, data.makespan / 1e4, 2));
  from = Math.min(Math.max(0, start), data.makespan - length);
  to = from + length;
  draw();
}
const zoom = (factor, about = (from + to) / 2) => view(about - (about - from) / factor, (to - from) / factor);
const move = share => view(from + share * (to - from), to - from);

// So near that every label fits.
function legible() {
  g.font = font;
  let scale = 0;
  for (const lane of data.lanes) for (const b of lane.blocks) for (const part of b.parts) {
    scale = Math.max(scale, (g.measureText(part.label).width + 6) / (b.end - b.start));
  }
  view(from, plot() / scale);
}

function at(event) {
  const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
  const rank = Math.floor(py / row);
  if (px < margin || px > margin + plot() || rank < 0 || rank >= ranks) return null;
  const block = data.lanes[rank].blocks[firstAfter(data.lanes[rank].blocks, time(px))];
  return block && block.start <= time(px) ? {rank, block} : null;
}

function point(event) {
  const found = at(event);
  if ((found && found.block) !== (pointed && pointed.block)) {
    pointed = found;
    draw();
  }
  note.style.display = found ? 'block' : 'none';
  if (!found) return;
  note.textContent = found.block.text;
  note.style.left = Math.max(0, Math.min(event.clientX + 14, window.innerWidth - note.offsetWidth - 8)) + 'px';
  note.style.top = Math.max(0, Math.min(event.clientY + 14, window.innerHeight - note.offsetHeight - 8)) + 'px';
}

canvas.addEventListener('mousemove', event => {
  if (!drag) return point(event);
  view(drag.from - (event.clientX - drag.x) / plot() * (to - from), to - from);
});
canvas.addEventListener('mousedown', event => { drag = {x: event.clientX, from}; });
window.addEventListener('mouseup', () => { drag = null; });
canvas.addEventListener('mouseleave', event => { if (!drag) point(event); });
canvas.addEventListener('wheel', event => {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  zoom(Math.exp(-event.deltaY / 300), time(event.clientX - canvas.getBoundingClientRect().left));
}, {passive: false});
window.addEventListener('keydown', event => {
  const action = {'+': () => zoom(1.5), '=': () => zoom(1.5), '-': () => zoom(1 / 1.5), '0': () => view(0, data.makespan),
                  ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2)}[event.key];
  if (!action || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  action();
});
document.getElementById('in').onclick = () => zoom(1.5);
document.getElementById('out').onclick = () => zoom(1 / 1.5);
document.getElementById('fit').onclick = () => view(0, data.makespan);
document.getElementById('read').onclick = legible;
window.addEventListener('resize', draw);

function key(part, words) {
  const entry = document.createElement('span'), picture = document.createElement('canvas');
  picture.width = 22;
  picture.height = 14;
  swatch(picture.getContext('2d'), part, 0, 0, 22, 14);
  entry.append(picture, words);
  document.getElementById('legend').append(entry);
}
for (const [pass, paint] of Object.entries(data.paints)) key({pass, chunk: 0}, pass + ' ' + paint.words);
for (let chunk = 1; chunk < data.chunks; ++chunk) {
  key({pass: 'F', chunk}, 'chunk ' + String.fromCharCode(97 + chunk % 26));
}
draw();
</script>
</body>
</html>
)page";

}  // namespace trilith::inline v0::trace::detail
