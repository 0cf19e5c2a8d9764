'use strict';
// Draws what `kolo trace report` has reckoned. Names come from programs: they are only ever text.
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
const CONFIG = {responsive: true, displaylogo: false};

// Names are no markup to plotly either, which knows <b>, <a href> and &amp;.
function plain(name) {
  const shown = name.length > 48 ? name.slice(0, 22) + '…' + name.slice(-24) : name;
  return shown.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
}

function percent(part, whole) {
  return (whole > 0 ? 100 * part / whole : 0).toFixed(1) + ' %';
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
    margin: {l: 70, r: 20, t: 20, b: 50}, paper_bgcolor: '#fff', plot_bgcolor: '#fff',
    font: {color: '#111'}, legend: {orientation: 'h', y: 1.12, traceorder: 'normal'},
    xaxis: Object.assign({gridcolor: '#ddd', automargin: true}, x),
    yaxis: Object.assign({gridcolor: '#ddd', automargin: true}, y),
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

function tellSummary() {
  const steps = data.steps.length ? `steps ${data.steps[0]} to ${data.last_step}` : 'no steps';
  document.getElementById('summary').textContent =
      `${data.size} rank${data.size === 1 ? '' : 's'}, ${steps}; a step takes ${data.step_time} ms.`;
  document.getElementById('doubts').textContent = data.doubts.join(' ');
  for (const finding of data.findings) {
    const box = document.createElement('div');
    box.className = 'finding';
    addText(box, 'b', finding.title);
    addText(box, 'span', finding.text);
    document.getElementById('findings').append(box);
  }
}

function drawSplit() {
  const names = data.ranks.map((rank) => 'rank ' + rank.rank);
  const traces = PARTS.map((part) => ({
    type: 'bar', orientation: 'h', name: part.key, y: names,
    x: data.ranks.map((rank) => rank.mean[part.key]),
    marker: {color: part.color, line: {color: '#333', width: 0.5},
      pattern: {shape: part.pattern, fillmode: 'overlay', fgcolor: '#333', fgopacity: 0.6, size: 7}},
    hovertemplate: '%{y}: ' + part.key + ' %{x} ms<extra></extra>',
  }));
  document.getElementById('split').style.height = Math.min(9 + 2 * names.length, 60) + 'rem';
  Plotly.newPlot('split', traces, layout({title: {text: 'ms a step, mean'}},
      {autorange: 'reversed', type: 'category'}, {barmode: 'stack'}), CONFIG);
}

function drawSteps(rank) {
  const traces = PARTS.map((part) => ({
    type: 'scatter', mode: 'lines', name: part.key, stackgroup: 'all', x: data.steps,
    y: data.ranks[rank].steps[part.key], line: {color: part.color, width: 0.5},
    fillcolor: part.color,
    fillpattern: {shape: part.pattern, fgcolor: '#333', fillmode: 'overlay', fgopacity: 0.6, size: 8},
  }));
  const title = 'step' + (data.steps_each > 1 ? `, means of ${data.steps_each}` : '');
  Plotly.react('steps', traces, layout({title: {text: title}},
      {title: {text: 'ms'}, rangemode: 'tozero'}, {hovermode: 'x unified'}), CONFIG);
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
  const trace = {
    type: 'heatmap', x: data.steps, y: data.ranks.map((rank) => 'rank ' + rank.rank),
    z: data.ranks.map((rank) => rank.late), colorscale: 'Cividis', reversescale: true, zmin: 0,
    colorbar: {title: {text: 'ms late'}},
    hovertemplate: '%{y}, step %{x}: %{z} ms late<extra></extra>',
  };
  document.getElementById('late').style.height = Math.min(9 + 2 * data.ranks.length, 60) + 'rem';
  Plotly.newPlot('late', [trace], layout({title: {text: 'step'}},
      {autorange: 'reversed', type: 'category'}), CONFIG);
}

function drawTensors() {
  const tensors = data.tensors;
  // By place: shortened names may be alike.
  const places = tensors.map((_, place) => place);
  const names = tensors.map((one) => plain(one.name));
  const part = (name, values, base, color, pattern) => ({
    type: 'bar', orientation: 'h', name, y: places, x: values, base,
    text: names, textposition: 'none', hovertemplate: '%{text}: %{x} ms<extra></extra>',
    marker: {color, line: {color: '#333', width: 0.5}, pattern: {shape: pattern, fillmode: 'overlay', fgcolor: '#333', fgopacity: 0.6, size: 7}},
  });
  const traces = [
    part('until it is submitted', tensors.map((one) => one.ready), 0, '#56b4e9', ''),
    part('until it is reduced', tensors.map((one) => Math.max(0, one.reduced - one.ready)),
        tensors.map((one) => one.ready), '#d55e00', 'x'),
  ];
  document.getElementById('tensors').style.height = (9 + 1.4 * tensors.length) + 'rem';
  Plotly.newPlot('tensors', traces, layout({title: {text: 'ms since the step began'}},
      {autorange: 'reversed', tickvals: places, ticktext: names}, {barmode: 'overlay'}), CONFIG);
  addTable('tensor-table', ['tensor', 'submitted, ms', 'reduced, ms', 'was the last one, times', 'program waited, ms a step'],
      tensors.map((one) => [one.name, one.ready, one.reduced, one.last, one.waited]));
}

// Powers of four: log axes of their own accord show powers of ten.
function byteTicks() {
  const powers = Array.from({length: 20}, (_, i) => 4 ** i);
  return {tickvals: powers, ticktext: powers.map(bytesText)};
}

function drawSpeed() {
  const kinds = [...new Set(data.speeds.map((one) => one.phase))];
  const traces = kinds.map((kind, index) => {
    const rows = data.speeds.filter((one) => one.phase === kind);
    return {
      type: 'scatter', mode: 'markers', name: plain(kind), x: rows.map((one) => one.bytes), y: rows.map((one) => one.rate),
      error_y: {type: 'data', symmetric: false, array: rows.map((one) => one.fast - one.rate),
        arrayminus: rows.map((one) => one.rate - one.slow), thickness: 1},
      text: rows.map((one) => `${bytesText(one.bytes)}, ${one.count} times`),
      hovertemplate: '%{text}: %{y} GB/s<extra></extra>',
      marker: {size: 9, color: COLORS[index % COLORS.length], symbol: SYMBOLS[index % SYMBOLS.length]},
    };
  });
  [...new Set(data.measured.speeds.map((one) => one.who))].forEach((who, index) => {
    const rows = data.measured.speeds.filter((one) => one.who === who);
    traces.push({
      type: 'scatter', mode: 'lines', name: 'measured: ' + plain(who), x: rows.map((one) => one.bytes),
      y: rows.map((one) => one.rate),
      line: {color: COLORS[(kinds.length + index) % COLORS.length], dash: DASHES[index % DASHES.length]},
    });
  });
  Plotly.newPlot('speed', traces, layout({type: 'log', ...byteTicks()},
      {type: 'log', title: {text: 'GB/s'}}), CONFIG);
  document.getElementById('measured').textContent = data.measured.speeds.length ?
    `Lines: what kolo bench allreduce measured on ${data.measured.date} (${data.measured.machine}); limit is what memory allows.` :
    'What this machine can do is not known here: kolo bench allreduce --json speed.json measures it, with as many ranks on the ' +
    'same hosts, and kolo trace report --bandwidth speed.json draws it.';
  addTable('speed-table', ['collective', 'bytes', 'times', 'GB/s', 'slowest 10 %', 'fastest 10 %', 'ms a step, summed'],
      data.speeds.map((one) => [one.phase, bytesText(one.bytes), one.count, one.rate, one.slow, one.fast, one.time]));
}

function tellRanks() {
  addTable('ranks', ['rank', 'host', 'cores', 'ms a step', 'compute', 'overlapped', 'exposed', 'waiting', 'clock known to, us'],
      data.ranks.map((rank) => {
        const whole = PARTS.reduce((sum, part) => sum + rank.mean[part.key], 0);
        return [rank.rank, rank.host, rank.cores || '?', whole.toFixed(3),
          ...PARTS.map((part) => percent(rank.mean[part.key], whole)), rank.clock_error_us];
      }));
  if (data.scopes.length) {
    addTable('scopes', ['kolo::trace scope', 'ms a step'], data.scopes.map((one) => [one.name, one.time]));
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
