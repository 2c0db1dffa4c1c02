# Writes HEADER: the text of PAGE as the constant kPlanPageTemplate, in literals short enough for any compiler.
file(READ ${PAGE} text)
string(LENGTH "${text}" length)
set(literals "")
set(at 0)
while(at LESS length)
  string(SUBSTRING "${text}" ${at} 12000 piece)
  string(LENGTH "${piece}" taken)
  math(EXPR at "${at} + ${taken}")
  string(APPEND literals "R\"page(${piece})page\"\n")
endwhile()
file(WRITE ${HEADER} "// Generated from the page's own file.\n#pragma once\n\n#include <string_view>\n\n"
     "namespace forethought {\ninline constexpr std::string_view kPlanPageTemplate =\n${literals};\n}\n")
