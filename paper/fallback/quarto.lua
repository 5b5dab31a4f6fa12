-- What the paper uses of Quarto, for plain pandoc: numbered chapters, sections, figures and tables, references to them,
-- and callouts. Numbers are text, so HTML and PDF agree: "Figure 4.2" is the second figure of chapter 4, "Table A.1"
-- the first table of the first appendix. Variables, includes and conditions are already resolved (meshperf.report.render).

local chapter, appendix = 0, false
local sections, floats, names = {}, {}, {}

local FLOATS = { fig = "Figure", tbl = "Table" }

local function chapter_label()
  if appendix then return string.char(string.byte("A") + chapter - 1) end
  return tostring(chapter)
end

local function typst() return FORMAT:match("typst") ~= nil end

local function raw(text) return pandoc.RawBlock(typst() and "typst" or "html", text) end

local function escaped(text)
  if typst() then return (text:gsub("\\", "\\\\"):gsub('"', '\\"')) end
  return (text:gsub("&", "&amp;"):gsub('"', "&quot;"):gsub("<", "&lt;"):gsub(">", "&gt;"))
end

-- Headers -------------------------------------------------------------------------------------------------------------

local function number_header(header)
  if header.classes:includes("unnumbered") then return header end
  local level = header.level
  if level == 1 then
    chapter, sections, floats = chapter + 1, {}, { fig = 0, tbl = 0 }
  else
    sections[level] = (sections[level] or 0) + 1
    for deeper = level + 1, 6 do sections[deeper] = nil end
  end
  local parts = { chapter_label() }
  for depth = 2, level do parts[#parts + 1] = tostring(sections[depth] or 0) end
  local number = table.concat(parts, ".")
  local kind = level > 1 and "Section" or (appendix and "Appendix" or "Chapter")
  names[header.identifier] = kind .. "\u{a0}" .. number
  header.content = pandoc.Inlines({ pandoc.Span(number, { class = "section-number" }), pandoc.Space() }) .. header.content
  return header
end

-- Figures and tables --------------------------------------------------------------------------------------------------

local function last_paragraph(div)
  local caption = div.content[#div.content]
  if caption == nil or caption.t ~= "Para" then
    error("the float " .. div.identifier .. " does not end with a caption")
  end
  return caption.content
end

local function local_links_off(inlines)
  -- A PDF travels alone: a link to a file beside the HTML would lead nowhere.
  return inlines:walk({ Link = function(link)
    if not link.target:match("^%a+:") and not link.target:match("^#") then return link.content end
  end })
end

local function images_of(div)
  local images = {}
  pandoc.Div(div.content):walk({ Image = function(image)
    images[#images + 1] = { source = image.src, alt = image.attributes["fig-alt"] or "" }
  end })
  return images
end

local function figure_blocks(div, caption)
  local images, blocks = images_of(div), pandoc.List()
  if typst() then
    blocks:insert(raw("#figure(kind: image, caption: ["))
    blocks:insert(pandoc.Plain(local_links_off(caption)))
    local cells = {}
    for _, image in ipairs(images) do
      cells[#cells + 1] = string.format('image("%s", width: 100%%, alt: "%s")', image.source, escaped(image.alt))
    end
    local width = #images > 1 and "100%" or "72%"
    local body = string.format("box(width: %s, grid(columns: %d, gutter: 10pt, %s))", width, #images, table.concat(cells, ", "))
    blocks:insert(raw(string.format("])[#%s] <%s>", body, div.identifier)))
    return blocks
  end
  blocks:insert(raw(string.format('<figure id="%s"><div class="panels">', div.identifier)))
  for _, image in ipairs(images) do
    blocks:insert(raw(string.format('<img src="%s" alt="%s" loading="lazy">', image.source, escaped(image.alt))))
  end
  blocks:insert(raw("</div><figcaption>"))
  blocks:insert(pandoc.Plain(caption))
  blocks:insert(raw("</figcaption></figure>"))
  return blocks
end

local function without_widths(blocks)
  return pandoc.Div(blocks):walk({ Table = function(tbl)
    local total = 0
    for _, spec in ipairs(tbl.colspecs) do total = total + (spec[2] or 0) end
    tbl.colspecs = tbl.colspecs:map(function(spec)
      -- In print, a column of prose keeps a share of the width so that it wraps; all others take what they need.
      local share = spec[2] or 0
      if typst() and spec[1] ~= "AlignRight" and total > 0 and share / total > 0.3 then return { spec[1], share / total } end
      return { spec[1], nil }
    end)
    return tbl
  end }).content
end

local function table_blocks(div, caption)
  local content = pandoc.List()
  for index = 1, #div.content - 1 do content:insert(div.content[index]) end
  content = without_widths(content)
  if typst() then
    for _, block in ipairs(content) do
      if block.t == "Table" then
        block.caption = pandoc.Caption({ pandoc.Plain(local_links_off(caption)) })
        block.identifier = div.identifier
      end
    end
    return content
  end
  local blocks = pandoc.List()
  blocks:insert(raw(string.format('<figure id="%s" class="table"><figcaption>', div.identifier)))
  blocks:insert(pandoc.Plain(caption))
  local name = escaped(names[div.identifier] or "Table")
  blocks:insert(raw(string.format('</figcaption><div class="scroll" tabindex="0" role="region" aria-label="%s">', name)))
  blocks:extend(content)
  blocks:insert(raw("</div></figure>"))
  return blocks
end

local function float(div, kind)
  floats[kind] = (floats[kind] or 0) + 1
  local name = string.format("%s\u{a0}%s.%d", FLOATS[kind], chapter_label(), floats[kind])
  names[div.identifier] = name
  local caption = last_paragraph(div)
  local head = { pandoc.Span(pandoc.Strong(name .. ":"), { class = "float-number" }), pandoc.Space() }
  caption = pandoc.Inlines(head) .. caption
  return kind == "fig" and figure_blocks(div, caption) or table_blocks(div, caption)
end

-- Callouts ------------------------------------------------------------------------------------------------------------

local function callout(div, class)
  local title = div.attributes["title"] or class:gsub("callout%-", ""):gsub("^%l", string.upper)
  if typst() then
    local blocks = pandoc.List({ raw(string.format('#callout("%s")[', escaped(title))) })
    blocks:extend(div.content)
    blocks:insert(raw("]"))
    return blocks
  end
  local blocks = pandoc.List({ pandoc.Div(pandoc.Plain(title), { class = "callout-title" }) })
  blocks:extend(div.content)
  return pandoc.Div(blocks, { class = "callout " .. class })
end

-- In document order: number, then resolve references ------------------------------------------------------------------

local numbering = {
  traverse = "topdown",
  Header = number_header,
  Div = function(div)
    if div.classes:includes("appendix-begins") then
      if not appendix then chapter, appendix = 0, true end
      return {}
    end
    for kind in pairs(FLOATS) do
      if div.identifier:match("^" .. kind .. "%-") then return float(div, kind), false end
    end
    for _, class in ipairs(div.classes) do
      if class:match("^callout%-") then return callout(div, class), false end
    end
  end,
}

local references = {
  Cite = function(cite)
    local id = cite.citations[1].id
    if not id:match("^%a+%-") or not (FLOATS[id:match("^(%a+)%-")] or id:match("^sec%-")) then return nil end
    if not names[id] then error("@" .. id .. " is referred to and not defined") end
    return pandoc.Link(names[id], "#" .. id)
  end,
}

function Pandoc(doc)
  doc = doc:walk(numbering)
  return doc:walk(references)
end
