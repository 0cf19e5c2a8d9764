'use strict';
// Draws what `kolo trace report` has computed. Names come from programs, so they are only used as text.
const data = JSON.parse(document.getElementById('data').textContent);

// Okabe and Ito's colours, which colour-blind people tell apart; patterns for paper without colours.
const PARTS = [
  {key: 'compute', color: '#56b4e9', pattern: ''},
  {key: 'overlapped', color: '#009e73', pattern: '/'},
  {key: 'exposed', color: '#d55e00', pattern: 'x'},
  {key: 'waiting', color: '#f0e442', pattern: '.'},
];
const COLORS = ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#e69f00', '#56b4e9', '#000000'];
const SYMBOLS = ['circle', 'square', 'diamond', 'triangle-up', 'cross', 'x', 'star'];
const DASHES = ['dash', 'dot', 'dashdot', 'longdash'];
// Nothing of the parts' colours: from white, on time, to dark.
const LATENESS = [[0, '#ffffff'], [0.25, '#d4c8e6'], [0.6, '#7f5fa9'], [1, '#2d004b']];
const NOISE = 0.05;  // of a step: as late as that is never dark
const CONFIG = {responsive: true, displayModeBar: false};
const IS_NARROW = document.documentElement.clientWidth < 700;

// Escapes a name for plotly, which interprets <b>, <a href> and &amp;.
function plain(name) {
  const most = IS_NARROW ? 20 : 48;
  const shown = name.length > most ? name.slice(0, most / 2 - 2) + '…' + name.slice(1 - most / 2) : name;
  return shown.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
}

function percent(part, whole) {
  return (whole > 0 ? 100 * part / whole : 0).toFixed(1) + ' %';
}

// Formats a number with three significant digits and without an exponent.
function digits(value) {
  if (!(value > 0)) return '0';
  return value >= 100 ? value.toFixed(0) : value.toPrecision(3);
}

// Returns the unit for these times in milliseconds in which the largest of them is easy to read.
function timeUnit(milliseconds) {
  const most = Math.max(0, ...milliseconds);
  if (most >= 2000) return {name: 's', of: (time) => time / 1000};
  if (most >= 0.5 || most === 0) return {name: 'ms', of: (time) => time};
  return {name: 'µs', of: (time) => time * 1000};
}

function timeText(milliseconds) {
  const unit = timeUnit([milliseconds]);
  return digits(unit.of(milliseconds)) + ' ' + unit.name;
}

// Returns the text of a rate in gigabytes per second.
function rateText(rate, text = digits) {
  if (rate >= 1) return text(rate) + ' GB/s';
  if (rate >= 1e-3) return text(rate * 1e3) + ' MB/s';
  return rate >= 1e-6 ? text(rate * 1e6) + ' kB/s' : text(rate * 1e9) + ' B/s';
}

function rateTick(rate) {
  return rateText(rate, (value) => Math.round(value).toString());
}

function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  while (bytes >= 1024 && unit + 1 < units.length) {
    bytes /= 1024;
    unit += 1;
  }
  return (Number.isInteger(bytes) ? bytes : bytes.toFixed(1)) + ' ' + units[unit];
}

function layout(x, y, more) {
  return Object.assign({
    margin: {l: IS_NARROW ? 50 : 70, r: 20, t: 20, b: 50}, paper_bgcolor: '#fff', plot_bgcolor: '#fff',
    font: {color: '#111'},
    // Above the picture, which makes room for it, however many lines it has.
    legend: {orientation: 'h', x: 0, xanchor: 'left', y: 1.02, yanchor: 'bottom', traceorder: 'normal'},
    xaxis: Object.assign({gridcolor: '#ddd', automargin: true, exponentformat: 'none'}, x),
    yaxis: Object.assign({gridcolor: '#ddd', automargin: true, exponentformat: 'none'}, y),
  }, more);
}

function addTable(id, head, rows) {
  const table = document.createElement('table');
  const addRow = (values, kind) => {
    const row = table.insertRow();
    for (const value of values) {
      const cell = document.createElement(kind);
      cell.textContent = value;
      row.append(cell);
    }
  };
  addRow(head, 'th');
  for (const row of rows) addRow(row, 'td');
  document.getElementById(id).append(table);
}

function addText(parent, element, text) {
  const child = document.createElement(element);
  child.textContent = text;
  parent.append(child);
}

function hide(id) {
  document.getElementById(id).hidden = true;
}

function tellSummary() {
  if (data.program) document.title = data.program + ': where the time of a step goes';
  document.getElementById('job').textContent = data.title;
  const first = data.steps[0];
  const steps = first === data.last_step ? `step ${first}` : `steps ${first} to ${data.last_step}`;
  document.getElementById('summary').textContent = `In ${steps} a step takes ${timeText(data.step_time)}.`;
  document.getElementById('doubts').textContent = data.doubts.join(' ');
  for (const finding of data.findings) {
    const box = document.createElement('div');
    box.className = 'finding';
    addText(box, 'b', finding.title);
    addText(box, 'span', finding.text);
    document.getElementById('findings').append(box);
  }
}

// Ticks stand at whole steps.
function stepAxis(title) {
  const few = data.last_step - data.steps[0] < 10;
  return Object.assign({title: {text: title}, tickformat: 'd'}, few ? {tick0: 0, dtick: 1} : {});
}

function partMarker(color, pattern) {
  return {color, line: {color: '#333', width: 0.5},
    pattern: {shape: pattern, fillmode: 'overlay', fgcolor: '#333', fgopacity: 0.6, size: 7}};
}

function drawSplit() {
  const names = data.ranks.map((rank) => 'rank ' + rank.rank);
  const unit = timeUnit([data.step_time]);
  const traces = PARTS.map((part) => ({
    type: 'bar', orientation: 'h', name: part.key, y: names,
    x: data.ranks.map((rank) => unit.of(rank.mean[part.key])), marker: partMarker(part.color, part.pattern),
    hovertemplate: `%{y}: ${part.key} %{x:.3~f} ${unit.name}<extra></extra>`,
  }));
  document.getElementById('split').style.height = Math.min(9 + 2 * names.length, 60) + 'rem';
  Plotly.newPlot('split', traces, layout({title: {text: unit.name + ' a step, mean'}},
      {autorange: 'reversed', type: 'category'}, {barmode: 'stack'}), CONFIG);
}

function drawSteps(rank) {
  const unit = timeUnit([data.step_time]);
  const traces = PARTS.map((part) => ({
    type: 'scatter', mode: data.steps.length > 1 ? 'lines' : 'lines+markers', name: part.key, stackgroup: 'all',
    x: data.steps, y: data.ranks[rank].steps[part.key].map(unit.of), line: {color: part.color, width: 0.5},
    fillcolor: part.color, hovertemplate: `%{y:.3~f} ${unit.name}`,
    fillpattern: {shape: part.pattern, fgcolor: '#333', fillmode: 'overlay', fgopacity: 0.6, size: 8},
  }));
  const title = 'step' + (data.steps_each > 1 ? `, means of ${data.steps_each}` : '');
  Plotly.react('steps', traces, layout(stepAxis(title),
      {title: {text: unit.name}, rangemode: 'tozero'}, {hovermode: 'x unified'}), CONFIG);
}

function offerRanks() {
  const select = document.getElementById('rank');
  data.ranks.forEach((rank, index) => {
    const option = document.createElement('option');
    option.value = index;
    option.textContent = `rank ${rank.rank} on ${rank.host}`;
    select.append(option);
  });
  select.addEventListener('change', () => drawSteps(Number(select.value)));
  drawSteps(0);
}

function drawLate() {
  if (data.ranks.length < 2) return hide('late-section');
  const times = data.ranks.flatMap((rank) => rank.late.filter((late) => late !== null));
  // spread into Math.max it would be too many arguments
  const most = times.reduce((a, b) => Math.max(a, b), NOISE * data.step_time);
  const unit = timeUnit([most]);
  const trace = {
    type: 'heatmap', x: data.steps, y: data.ranks.map((rank) => 'rank ' + rank.rank),
    z: data.ranks.map((rank) => rank.late.map((late) => (late === null ? null : unit.of(late)))),
    colorscale: LATENESS, zmin: 0, zmax: unit.of(most), ygap: 2,
    colorbar: {title: {text: unit.name + ' late'}, outlinecolor: '#bbb', thickness: IS_NARROW ? 12 : 24},
    hovertemplate: `%{y}, step %{x}: %{z:.3~f} ${unit.name} late<extra></extra>`,
  };
  document.getElementById('late').style.height = Math.min(9 + 2 * data.ranks.length, 60) + 'rem';
  // Unknown values are grey, not white like "on time".
  Plotly.newPlot('late', [trace], layout(
      Object.assign(stepAxis('step'), {showline: true, mirror: true, linecolor: '#bbb'}),
      {autorange: 'reversed', type: 'category', showgrid: false, showline: true, mirror: true, linecolor: '#bbb'}, {plot_bgcolor: '#e4e4e4'}), CONFIG);
}

function drawTensors() {
  const tensors = data.tensors;
  if (tensors.length === 0) return hide('tensors-section');
  // By place: shortened names may be alike.
  const places = tensors.map((_, place) => place);
  const names = tensors.map((one) => plain(one.name));
  const unit = timeUnit(tensors.map((one) => one.reduced));
  const part = (name, values, base, color, pattern) => ({
    type: 'bar', orientation: 'h', name, y: places, x: values.map(unit.of), base: base.map(unit.of),
    text: names, textposition: 'none', hovertemplate: `%{text}: %{x:.3~f} ${unit.name}<extra></extra>`,
    marker: partMarker(color, pattern),
  });
  const traces = [
    part('until it is submitted', tensors.map((one) => one.ready), tensors.map(() => 0), '#56b4e9', ''),
    part('until it is reduced', tensors.map((one) => Math.max(0, one.reduced - one.ready)),
        tensors.map((one) => one.ready), '#d55e00', 'x'),
  ];
  document.getElementById('tensors').style.height = (9 + 1.4 * tensors.length) + 'rem';
  Plotly.newPlot('tensors', traces, layout({title: {text: unit.name + ' since the step began'}},
      {autorange: 'reversed', tickvals: places, ticktext: names, ticks: 'outside', tickcolor: '#fff'},
      {barmode: 'overlay'}), CONFIG);
  addTable('tensor-table', ['tensor', 'submitted', 'reduced', 'times last', 'program waited, a step'],
      tensors.map((one) => [one.name, timeText(one.ready), timeText(one.reduced), one.last,
        timeText(one.waited)]));
}

// Returns a logarithmic axis from below the smallest value to above the largest one. The factor leaves at
// least two ticks in the axis; `ticks` are the candidates.
function logAxis(values, factor, ticks, text) {
  const least = Math.min(...values) / factor;
  const most = Math.max(...values) * factor;
  const within = ticks.filter((tick) => tick >= least && tick <= most);
  const each = Math.ceil(within.length / (IS_NARROW ? 6 : 12));
  const shown = within.filter((_, place) => place % each === 0);
  return {type: 'log', range: [Math.log10(least), Math.log10(most)], tickvals: shown, ticktext: shown.map(text)};
}

function byteTicks() {
  return Array.from({length: 50}, (_, i) => 2 ** i);
}

// Returns ticks at 1, 2 and 5, or at powers of ten if there would be too many.
function rateTicks(rates) {
  const many = Math.max(...rates) / Math.min(...rates) > 1000;
  const powers = Array.from({length: 18}, (_, i) => 10 ** (i - 12));
  return powers.flatMap((power) => (many ? [power] : [power, 2 * power, 5 * power]));
}

function drawSpeed() {
  const kinds = [...new Set(data.speeds.map((one) => one.phase))];
  const all = data.speeds.concat(data.measured.speeds).filter((one) => one.rate > 0 && one.bytes > 0);
  if (all.length === 0) return hide('speed-section');
  const traces = kinds.map((kind, index) => {
    const rows = data.speeds.filter((one) => one.phase === kind);
    return {
      type: 'scatter', mode: 'markers', name: plain(kind), x: rows.map((one) => one.bytes), y: rows.map((one) => one.rate),
      error_y: {type: 'data', symmetric: false, array: rows.map((one) => one.fast - one.rate),
        arrayminus: rows.map((one) => one.rate - one.slow), thickness: 1},
      text: rows.map((one) => `${bytesText(one.bytes)}, ${one.count} times: ${rateText(one.rate)}`),
      hovertemplate: '%{text}<extra></extra>',
      marker: {size: 9, color: COLORS[index % COLORS.length], symbol: SYMBOLS[index % SYMBOLS.length]},
    };
  });
  [...new Set(data.measured.speeds.map((one) => one.who))].forEach((who, index) => {
    const rows = data.measured.speeds.filter((one) => one.who === who);
    traces.push({
      type: 'scatter', mode: 'lines', name: 'measured: ' + plain(who), x: rows.map((one) => one.bytes),
      y: rows.map((one) => one.rate), text: rows.map((one) => `${bytesText(one.bytes)}: ${rateText(one.rate)}`),
      hovertemplate: '%{text}<extra></extra>',
      line: {color: COLORS[(kinds.length + index) % COLORS.length], dash: DASHES[index % DASHES.length]},
    });
  });
  const rates = all.flatMap((one) => [one.rate, one.slow, one.fast]).filter((rate) => rate > 0);
  Plotly.newPlot('speed', traces, layout(logAxis(all.map((one) => one.bytes), 2, byteTicks(), bytesText),
      logAxis(rates, 2.5, rateTicks(rates), rateTick), {showlegend: true}), CONFIG);
  document.getElementById('measured').textContent = data.measured.speeds.length ?
    `Lines: what kolo bench allreduce measured on ${data.measured.date} (${data.measured.machine}); ` +
      '"limit" is the speed that memory allows.' :
    'The speed of this machine is unknown: measure it by kolo bench allreduce --json speed.json with as many ranks ' +
      'on the same hosts, and draw it by kolo trace report --bandwidth speed.json.';
  addTable('speed-table', ['collective', 'bytes', 'times', 'median', 'slowest 10 %', 'fastest 10 %', 'all of a step'],
      data.speeds.map((one) => [one.phase, bytesText(one.bytes), one.count, rateText(one.rate), rateText(one.slow),
        rateText(one.fast), timeText(one.time)]));
}

function tellRanks() {
  addTable('ranks', ['rank', 'host', 'cores', 'a step', 'compute', 'overlapped', 'exposed', 'waiting', 'clock known to'],
      data.ranks.map((rank) => {
        const whole = PARTS.reduce((sum, part) => sum + rank.mean[part.key], 0);
        return [rank.rank, rank.host, rank.cores || '?', timeText(whole),
          ...PARTS.map((part) => percent(rank.mean[part.key], whole)), timeText(rank.clock_error_us / 1000)];
      }));
  if (data.scopes.length) {
    addTable('scopes', ['kolo::trace scope', 'a step'], data.scopes.map((one) => [one.name, timeText(one.time)]));
  }
}

tellSummary();
drawSplit();
offerRanks();
drawLate();
drawTensors();
drawSpeed();
tellRanks();
document.body.dataset.drawn = 'yes';
