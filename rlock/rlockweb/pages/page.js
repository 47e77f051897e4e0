'use strict';

// The page gets the contents of its elements from the server, as HTML that is escaped there.
const main = document.querySelector('main[data-events]');
const banner = document.getElementById('banner');
let events = null; // the stream; null while nobody looks at the page
let ahead = 0; // by how much the server's clock is ahead of ours, in milliseconds
let said = ''; // what the server has last said for the banner

function open() {
	if (events || !main || document.hidden) return;
	events = new EventSource(main.dataset.events);
	events.onmessage = message => apply(JSON.parse(message.data));
	events.onerror = () => {
		banner.innerHTML = '<p class="away"><b>This page has lost its server.</b> What you see is the last state. It goes on by itself.</p>';
		if (events.readyState === EventSource.CLOSED) { // the server has answered, but with an error
			close();
			setTimeout(open, 2000);
		}
	};
}

function close() {
	if (events) events.close();
	events = null;
}

// apply changes the elements that have changed, and keeps the focus on what had it.
function apply(change) {
	ahead = change.now - Date.now();
	const focused = document.activeElement && document.activeElement.dataset.key;
	if (change.html.banner !== undefined) said = change.html.banner;
	banner.innerHTML = said;
	for (const [id, html] of Object.entries(change.html)) {
		const element = document.getElementById(id);
		if (element && id !== 'banner') element.innerHTML = html;
	}
	if (change.rows) arrange(document.getElementById('rows'), change.rows);
	tick();
	if (focused && document.activeElement === document.body) {
		const again = document.querySelector(`[data-key="${CSS.escape(focused)}"]`);
		if (again) again.focus({preventScroll: true});
	}
}

// arrange makes rows the children of the table, and leaves those that have not changed.
function arrange(table, rows) {
	let at = table.firstElementChild;
	for (const [id, html] of rows) {
		let row = document.getElementById(id);
		if (html) {
			const text = document.createElement('template');
			text.innerHTML = html;
			const fresh = text.content.firstElementChild;
			if (row) {
				if (row === at) at = fresh;
				row.replaceWith(fresh);
			}
			row = fresh;
		}
		if (!row) continue;
		if (row === at) at = at.nextElementSibling;
		else table.insertBefore(row, at);
	}
	while (at) {
		const next = at.nextElementSibling;
		at.remove();
		at = next;
	}
}

// tick moves the bars and the times.
function tick() {
	const now = Date.now() + ahead;
	for (const element of document.querySelectorAll('[data-until]')) {
		const left = Math.max(element.dataset.until - now, 0);
		if (element.tagName === 'PROGRESS') element.value = left;
		else element.textContent = span(left);
	}
	for (const element of document.querySelectorAll('[data-since]')) {
		element.textContent = ('least' in element.dataset ? '≥ ' : '') + span(Math.max(now - element.dataset.since, 0));
	}
}

function span(milliseconds) {
	const seconds = Math.floor(milliseconds / 1000), minutes = Math.floor(seconds / 60), hours = Math.floor(minutes / 60);
	if (hours > 47) return Math.floor(hours / 24) + ' d';
	if (hours) return `${hours} h ${minutes % 60} min`;
	if (minutes) return `${minutes} min ${seconds % 60} s`;
	return seconds + ' s';
}

const filter = document.getElementById('filter');
let typing = 0;
if (filter) {
	filter.addEventListener('input', () => {
		clearTimeout(typing);
		typing = setTimeout(() => {
			const query = new URLSearchParams(location.search);
			query.set('q', filter.value);
			query.delete('p');
			history.replaceState(null, '', '?' + query);
			main.dataset.events = 'events?' + query;
			close();
			open();
		}, 200);
	});
	document.addEventListener('keydown', event => {
		if (event.key !== '/' || event.ctrlKey || event.metaKey || event.altKey || event.target === filter) return;
		event.preventDefault();
		filter.select();
	});
}

document.addEventListener('visibilitychange', () => document.hidden ? close() : open());
addEventListener('pagehide', close);
addEventListener('pageshow', open);
setInterval(tick, 500);
open();
